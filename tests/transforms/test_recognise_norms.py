from __future__ import annotations

import pytest

from afterglow.transforms.recognise_norms import RECOGNISE_NORMS
from tests.transforms.rewriting import check_declines, check_rewrites

CONSTANTS = """const @eps : f32[] = [0.01]
const @two : f32[] = [2.0]
const @half : f32[] = [0.5]
const @minus_half : f32[] = [-0.5]
const @one : f32[] = [1.0]
const @four : f32[] = [4.0]
const @quarter : f32[] = [0.25]
"""
HEAD = "func @main(%x: f32[2, 3, 4], %z: f32[2, 3, 4], %w: f32[4], %c: f32[4]) {\n"
MEAN = "{axes = (2,), keepdims = true} : f32[2, 3, 1]"


def program(body: str, constants: str = CONSTANTS) -> str:
    """A function whose nodes are written without types, `mean` and `small` ones apart."""
    nodes = []
    for line in body.split(";"):
        text = line.strip().replace(" mean(", " reduce_mean(")
        if "reduce_" in text:
            text += f" {MEAN}"
        elif text.startswith("small "):
            text = f"{text.removeprefix('small ')} : f32[2, 3, 1]"
        else:
            text += " : f32[2, 3, 4]"
        nodes.append(f"  %{text}")
    return constants + HEAD + "\n".join([*nodes, "  return %y", "}"])


_CENTRED = "m = mean(%x); d = sub(%x, %m)"
_ROOT = "small v = add(%q, @eps); small r = sqrt(%v)"
_NORM = "{axis = 2, epsilon = 0.009999999776482582}"
LAYER_NORM = f"y = layer_norm(%x) {_NORM}"
RMS_NORM = f"y = rms_norm(%x) {_NORM}"

SPELLED = [
    # PyTorch, PaddlePaddle; squares by power or by multiplication.
    (f"{_CENTRED}; s = pow(%d, @two); q = mean(%s); {_ROOT}; y = div(%d, %r)", LAYER_NORM),
    (f"{_CENTRED}; s = mul(%d, %d); q = mean(%s); {_ROOT}; y = div(%d, %r)", LAYER_NORM),
    # A difference computed twice; epsilon on the left; the inverse of the root.
    (
        f"{_CENTRED}; f = sub(%x, %m); s = mul(%f, %f); q = mean(%s); small v = add(@eps, %q); "
        "small r = sqrt(%v); small i = reciprocal(%r); y = mul(%i, %d)",
        LAYER_NORM,
    ),
    (
        f"{_CENTRED}; s = mul(%d, %d); q = mean(%s); {_ROOT}; small i = div(@one, %r); "
        "y = mul(%d, %i)",
        LAYER_NORM,
    ),
    (
        f"{_CENTRED}; s = mul(%d, %d); q = mean(%s); small v = add(%q, @eps); "
        "small i = pow(%v, @minus_half); y = mul(%d, %i)",
        LAYER_NORM,
    ),
    (
        f"{_CENTRED}; s = mul(%d, %d); q = mean(%s); small v = add(%q, @eps); "
        "small i = pow(%v, @half); y = div(%d, %i)",
        LAYER_NORM,
    ),
    # The variance as a difference of moments.
    (
        f"{_CENTRED}; s = mul(%x, %x); q = mean(%s); small k = mul(%m, %m); "
        "small u = sub(%q, %k); small v = add(%u, @eps); small r = sqrt(%v); y = div(%d, %r)",
        LAYER_NORM,
    ),
    # With a scale and a bias, constant or not.
    (
        f"{_CENTRED}; s = pow(%d, @two); q = mean(%s); {_ROOT}; n = div(%d, %r); "
        "k = mul(%n, %w); y = add(%k, %c)",
        f"y = layer_norm(%x, %w, %c) {_NORM}",
    ),
    (
        f"{_CENTRED}; s = pow(%d, @two); q = mean(%s); {_ROOT}; n = div(%d, %r); "
        "k = mul(%w, %n); y = add(%c, %k)",
        f"y = layer_norm(%x, %w, %c) {_NORM}",
    ),
    (f"n = layer_norm(%x) {_NORM}; y = add(%n, %c)", f"y = layer_norm(%x, none, %c) {_NORM}"),
    # Keras.
    (
        f"{_CENTRED}; s = mul(%d, %d); q = mean(%s); {_ROOT}; small i = reciprocal(%r); "
        "g = mul(%i, %w); k = mul(%x, %g); j = mul(%m, %g); h = sub(%c, %j); y = add(%k, %h)",
        f"y = layer_norm(%x, %w, %c) {_NORM}",
    ),
    # JAX: means as sums divided by their length.
    (
        "t = reduce_sum(%x); small m = div(%t, @four); d = sub(%x, %m); s = mul(%d, %d); "
        f"u = reduce_sum(%s); small q = mul(%u, @quarter); {_ROOT}; y = div(%d, %r)",
        LAYER_NORM,
    ),
    # Llama, T5.
    (f"s = pow(%x, @two); q = mean(%s); {_ROOT}; y = div(%x, %r)", RMS_NORM),
    (
        f"s = mul(%x, %x); q = mean(%s); {_ROOT}; small i = reciprocal(%r); n = mul(%x, %i); "
        "y = mul(%w, %n)",
        f"y = rms_norm(%x, %w) {_NORM}",
    ),
]


@pytest.mark.parametrize(("before", "after"), SPELLED)
def test_spelled_norm_becomes_one_op(before: str, after: str) -> None:
    check_rewrites(RECOGNISE_NORMS, before=program(before), after=program(after, ""))


OTHERS = [
    # The mean of something else, other constants, another root.
    f"m = mean(%z); d = sub(%x, %m); s = mul(%z, %z); q = mean(%s); {_ROOT}; y = div(%d, %r)",
    f"s = mul(%z, %z); q = mean(%s); {_ROOT}; y = div(%x, %r)",
    f"s = pow(%x, @half); q = mean(%s); {_ROOT}; y = div(%x, %r)",
    "s = mul(%x, %x); q = mean(%s); small v = mul(%q, @two); small r = sqrt(%v); y = div(%x, %r)",
    "s = mul(%x, %x); q = mean(%s); small v = add(%q, @eps); y = div(%x, %v)",
    f"s = mul(%x, %x); q = mean(%s); {_ROOT}; y = mul(%x, %r)",
    f"s = mul(%x, %x); t = reduce_sum(%s); small q = div(%t, @two); {_ROOT}; y = div(%x, %r)",
    # A piece that serves others.
    f"s = mul(%x, %x); q = mean(%s); {_ROOT}; n = div(%x, %r); y = add(%n, %s)",
    # A scale of another shape, one of a result that serves others.
    f"n = layer_norm(%x) {_NORM}; y = mul(%n, %z)",
    f"n = layer_norm(%x) {_NORM}; y = mul(%n, @two)",
    f"n = layer_norm(%x) {_NORM}; k = mul(%n, %w); y = sub(%k, %n)",
    f"n = layer_norm(%x, %w, %c) {_NORM}; y = add(%n, %c)",
]


@pytest.mark.parametrize("text", OTHERS)
def test_other_formulas_stay(text: str) -> None:
    check_declines(RECOGNISE_NORMS, program(text))


def test_several_axes_are_normalised_at_once() -> None:
    check_rewrites(
        RECOGNISE_NORMS,
        before="""
            const @eps : f32[] = [0.5]
            const @w : f32[1, 2, 4] = [1, 2, 3, 4, 5, 6, 7, 8]
            func @main(%x: f32[3, 2, 4]) {
              %m = reduce_mean(%x) {axes = (1, 2), keepdims = true} : f32[3, 1, 1]
              %d = sub(%x, %m) : f32[3, 2, 4]
              %s = mul(%d, %d) : f32[3, 2, 4]
              %q = reduce_mean(%s) {axes = (1, 2), keepdims = true} : f32[3, 1, 1]
              %v = add(%q, @eps) : f32[3, 1, 1]
              %r = sqrt(%v) : f32[3, 1, 1]
              %n = div(%d, %r) : f32[3, 2, 4]
              %y = mul(%n, @w) : f32[3, 2, 4]
              return %y
            }
        """,
        after="""
            const @w : f32[1, 2, 4] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
            func @main(%x: f32[3, 2, 4]) {
              %y_1 = reshape(@w) {shape = (2, 4)} : f32[2, 4]
              %y = layer_norm(%x, %y_1) {axis = 1, epsilon = 0.5} : f32[3, 2, 4]
              return %y
            }
        """,
    )


def test_axes_between_samples_and_channels_make_an_instance_norm() -> None:
    instances = "{groups = 4, epsilon = 0.5, axis = 2}"
    check_rewrites(
        RECOGNISE_NORMS,
        before="""
            const @eps : f32[] = [0.5]
            func @main(%x: f32[3, 2, 4]) {
              %m = reduce_mean(%x) {axes = (1,), keepdims = true} : f32[3, 1, 4]
              %d = sub(%x, %m) : f32[3, 2, 4]
              %s = mul(%d, %d) : f32[3, 2, 4]
              %q = reduce_mean(%s) {axes = (1,), keepdims = true} : f32[3, 1, 4]
              %v = add(%q, @eps) : f32[3, 1, 4]
              %r = sqrt(%v) : f32[3, 1, 4]
              %y = div(%d, %r) : f32[3, 2, 4]
              return %y
            }
        """,
        after=f"""
            const @y.scale : f32[4] = [1.0, 1.0, 1.0, 1.0]
            const @y.bias : f32[4] = [0.0, 0.0, 0.0, 0.0]
            func @main(%x: f32[3, 2, 4]) {{
              %y = group_norm(%x, @y.scale, @y.bias) {instances} : f32[3, 2, 4]
              return %y
            }}
        """,
    )


def test_axes_that_are_not_the_last_stay() -> None:
    check_declines(
        RECOGNISE_NORMS,
        """
            const @eps : f32[] = [0.5]
            func @main(%x: f32[3, 2, 4]) {
              %m = reduce_mean(%x) {axes = (0,), keepdims = true} : f32[1, 2, 4]
              %d = sub(%x, %m) : f32[3, 2, 4]
              %s = mul(%d, %d) : f32[3, 2, 4]
              %q = reduce_mean(%s) {axes = (0,), keepdims = true} : f32[1, 2, 4]
              %v = add(%q, @eps) : f32[1, 2, 4]
              %r = sqrt(%v) : f32[1, 2, 4]
              %y = div(%d, %r) : f32[3, 2, 4]
              return %y
            }
        """,
    )


def test_conversions_are_not_emitted_for_what_stays() -> None:
    cast = "saturate = true, round_mode = up}"
    check_declines(
        RECOGNISE_NORMS,
        f"""
            const @eps : f32[] = [0.5]
            func @main(%x: f16[3, 4]) {{
              %w = cast(%x) {{dtype = f32, {cast} : f32[3, 4]
              %m = reduce_mean(%w) {{axes = (0,), keepdims = true}} : f32[1, 4]
              %d = sub(%w, %m) : f32[3, 4]
              %s = mul(%d, %d) : f32[3, 4]
              %q = reduce_mean(%s) {{axes = (0,), keepdims = true}} : f32[1, 4]
              %v = add(%q, @eps) : f32[1, 4]
              %r = sqrt(%v) : f32[1, 4]
              %y = div(%d, %r) : f32[3, 4]
              return %y
            }}
        """,
    )


def test_half_precision_is_normalised_as_it_is() -> None:
    cast = "saturate = true, round_mode = up}"
    check_rewrites(
        RECOGNISE_NORMS,
        before=f"""
            const @two : f32[] = [2]
            const @eps : f32[] = [0.5]
            func @main(%x: f16[3, 4], %w: f16[4], %c: f16[4]) {{
              %m = reduce_mean(%x) {{axes = (1,), keepdims = true}} : f16[3, 1]
              %h = sub(%x, %m) : f16[3, 4]
              %d = cast(%h) {{dtype = f32, {cast} : f32[3, 4]
              %s = pow(%d, @two) : f32[3, 4]
              %q = reduce_mean(%s) {{axes = (1,), keepdims = true}} : f32[3, 1]
              %v = add(%q, @eps) : f32[3, 1]
              %r = sqrt(%v) : f32[3, 1]
              %n = div(%d, %r) : f32[3, 4]
              %k = cast(%n) {{dtype = f16, {cast} : f16[3, 4]
              %j = mul(%k, %w) : f16[3, 4]
              %y = add(%j, %c) : f16[3, 4]
              return %y
            }}
        """,
        after="""
            func @main(%x: f16[3, 4], %w: f16[4], %c: f16[4]) {
              %y = layer_norm(%x, %w, %c) {axis = 1, epsilon = 0.5} : f16[3, 4]
              return %y
            }
        """,
        tolerance=1e-2,
    )
