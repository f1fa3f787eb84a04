from __future__ import annotations

import pytest

from afterglow.transforms.recognise_activations import RECOGNISE_ACTIVATIONS
from tests.transforms.rewriting import check_declines, check_rewrites

SHAPE = "f32[2, 3]"
CONSTANTS = {
    "one": 1.0,
    "half": 0.5,
    "two": 2.0,
    "three": 3.0,
    "six": 6.0,
    "sixth": 0.16666667,
    "minus_one": -1.0,
    "root": 1.4142135,
    "inverse_root": 0.70710677,
    "cube": 0.044715,
    "bell": 0.7978846,
    "bell_cube": 0.035677407,
    "quick": 1.702,
    "minus_quick": -1.702,
    "scalar": 1.702,
}


def program(body: str) -> str:
    """A function of %x and %z whose nodes are written without types."""
    lines = [line.strip() for line in body.strip().split(";")]
    used = [name for name in CONSTANTS if any(f"@{name}" in line for line in lines)]
    constants = [f"const @{name} : f32[] = [{CONSTANTS[name]}]" for name in used]
    nodes = [f"  %{line} : {SHAPE}" if " : " not in line else f"  %{line}" for line in lines]
    head = f"func @main(%x: {SHAPE}, %z: {SHAPE}) {{"
    return "\n".join([*constants, head, *nodes, "  return %y", "}"])


GELU = "y = gelu(%x) {approximate = false}"
TANH_GELU = "y = gelu(%x) {approximate = true}"
SILU = "y = swish(%x) {alpha = 1.0}"
QUICK_GELU = "y = swish(%x) {alpha = 1.7020000219345093}"
HARD_SWISH = "y = hard_swish(%x)"
HARD_SIGMOID = "y = hard_sigmoid(%x) {alpha = 0.16666666666666666, beta = 0.5}"
SIGMOID = "y = sigmoid(%x)"
SOFTPLUS = "y = softplus(%x)"
MISH = "y = mish(%x)"

_TANH = "t = tanh(%u); o = add(@one, %t); h = mul(%x, @half); y = mul(%h, %o)"
_CLIP = "a = add(%x, @three); c = clip(%a) {low = 0.0, high = 6.0}"

SPELLED = [
    # PyTorch by TorchScript, PyTorch by dynamo, TensorFlow, Keras, PaddlePaddle.
    (
        "d = div(%x, @root); e = erf(%d); o = add(%e, @one); m = mul(%x, %o); y = mul(%m, @half)",
        GELU,
    ),
    (
        "d = div(%x, @root); e = erf(%d); o = add(%e, @one); m = mul(@half, %o); y = mul(%x, %m)",
        GELU,
    ),
    (
        "h = mul(%x, @half); d = mul(%x, @inverse_root); e = erf(%d); o = add(@one, %e); "
        "y = mul(%h, %o)",
        GELU,
    ),
    (
        "d = mul(@inverse_root, %x); e = erf(%d); s = mul(%e, @half); o = add(%s, @half); "
        "y = mul(%o, %x)",
        GELU,
    ),
    (
        "d = div(%x, @root); e = erf(%d); o = add(%e, @one); m = mul(%x, %o); y = div(%m, @two)",
        GELU,
    ),
    (
        "h = mul(%x, @half); d = div(%x, @root); e = erf(%d); m = mul(%h, %e); y = add(%h, %m)",
        GELU,
    ),
    # The tanh form: cubes by multiplication or by power, factored or not.
    (
        "s = mul(%x, %x); q = mul(%x, %s); k = mul(@cube, %q); a = add(%x, %k); "
        f"u = mul(@bell, %a); {_TANH}",
        TANH_GELU,
    ),
    (
        "q = pow(%x, @three); k = mul(@cube, %q); a = add(%x, %k); u = mul(%a, @bell); "
        "t = tanh(%u); o = add(%t, @one); m = mul(@half, %o); y = mul(%x, %m)",
        TANH_GELU,
    ),
    (
        "s = mul(%x, %x); k = mul(%s, @cube); a = add(%k, @one); b = mul(%x, @bell); "
        f"u = mul(%b, %a); {_TANH}",
        TANH_GELU,
    ),
    (
        f"s = mul(%x, %x); q = mul(%s, @bell_cube); a = add(%q, @bell); u = mul(%a, %x); {_TANH}",
        TANH_GELU,
    ),
    ("s = sigmoid(%x); y = mul(%x, %s)", SILU),
    ("s = sigmoid(%x); y = mul(%s, %x)", SILU),
    ("n = neg(%x); e = exp(%n); d = add(%e, @one); y = div(%x, %d)", SILU),
    ("a = mul(%x, @quick); s = sigmoid(%a); y = mul(%x, %s)", QUICK_GELU),
    ("a = mul(%x, @minus_quick); e = exp(%a); d = add(%e, @one); y = div(%x, %d)", QUICK_GELU),
    (f"{_CLIP}; m = mul(%x, %c); y = div(%m, @six)", HARD_SWISH),
    (f"{_CLIP}; m = mul(%c, @sixth); y = mul(%m, %x)", HARD_SWISH),
    (f"{_CLIP}; d = div(%c, @six); y = mul(%x, %d)", HARD_SWISH),
    ("s = hard_sigmoid(%x) {alpha = 0.16666667, beta = 0.5}; y = mul(%x, %s)", HARD_SWISH),
    (
        "d = div(%x, @six); l = add(%d, @half); c = clip(%l) {low = 0.0, high = 1.0}; "
        "y = mul(%c, %x)",
        HARD_SWISH,
    ),
    (f"{_CLIP}; y = div(%c, @six)", HARD_SIGMOID),
    (f"{_CLIP}; y = mul(@sixth, %c)", HARD_SIGMOID),
    (
        "l = add(%x, @half); y = clip(%l) {low = 0.0, high = 1.0}",
        "y = hard_sigmoid(%x) {alpha = 1.0, beta = 0.5}",
    ),
    (
        "t = mul(%x, @two); l = sub(%t, @three); y = clip(%l) {low = 0.0, high = 1.0}",
        "y = hard_sigmoid(%x) {alpha = 2.0, beta = -3.0}",
    ),
    ("n = neg(%x); e = exp(%n); d = add(@one, %e); y = div(@one, %d)", SIGMOID),
    ("n = mul(%x, @minus_one); e = exp(%n); d = add(%e, @one); y = reciprocal(%d)", SIGMOID),
    ("e = exp(%x); d = add(%e, @one); y = reciprocal(%d)", "y_1 = neg(%x); y = sigmoid(%y_1)"),
    (
        "n = mul(%x, @minus_quick); e = exp(%n); d = add(@one, %e); y = div(@one, %d)",
        "y_1 = mul(%x, @scalar); y = sigmoid(%y_1)",
    ),
    ("h = mul(%x, @half); t = tanh(%h); o = add(%t, @one); y = mul(%o, @half)", SIGMOID),
    ("e = exp(%x); o = add(%e, @one); y = log(%o)", SOFTPLUS),
    ("e = exp(%x); y = log1p(%e)", SOFTPLUS),
    ("s = softplus(%x); t = tanh(%s); y = mul(%x, %t)", MISH),
    ("e = exp(%x); o = add(@one, %e); s = log(%o); t = tanh(%s); y = mul(%t, %x)", MISH),
    ("a = abs(%x); o = add(@one, %a); y = div(%x, %o)", "y = softsign(%x)"),
]


@pytest.mark.parametrize(("before", "after"), SPELLED)
def test_spelled_activation_becomes_one_op(before: str, after: str) -> None:
    check_rewrites(RECOGNISE_ACTIVATIONS, before=program(before), after=program(after))


def test_softplus_needs_no_linear_branch() -> None:
    check_rewrites(
        RECOGNISE_ACTIVATIONS,
        before="""
            const @c : f32[] = [20]
            func @main(%x: f32[3]) {
              %s = softplus(%x) : f32[3]
              %above = less(@c, %x) : bool[3]
              %y = where(%above, %x, %s) : f32[3]
              return %y
            }
        """,
        after="""
            func @main(%x: f32[3]) {
              %s = softplus(%x) : f32[3]
              return %s as "y"
            }
        """,
    )


OTHERS = [
    # Another constant, another operand, another function.
    "d = div(%x, @two); e = erf(%d); o = add(%e, @one); m = mul(%x, %o); y = mul(%m, @half)",
    "d = div(%x, @root); e = erf(%d); o = add(%e, @one); y = mul(%x, %o)",
    "d = div(%x, @root); e = erf(%d); o = add(%e, @one); m = mul(%z, %o); y = mul(%m, @half)",
    "q = pow(%x, @two); k = mul(@cube, %q); a = add(%x, %k); u = mul(%a, @bell); "
    "t = tanh(%u); o = add(%t, @one); m = mul(@half, %o); y = mul(%x, %m)",
    "s = sigmoid(%x); y = mul(%z, %s)",
    "a = add(%x, @two); s = sigmoid(%a); y = mul(%x, %s)",
    "a = add(%x, @two); c = clip(%a) {low = 0.0, high = 6.0}; m = mul(%x, %c); y = div(%m, @six)",
    "a = add(%x, @three); c = clip(%a) {low = 0.0, high = 6.0}; y = div(%c, @three)",
    "s = hard_sigmoid(%x) {alpha = 0.2, beta = 0.5}; y = mul(%x, %s)",
    "n = neg(%x); e = exp(%n); d = add(@two, %e); y = div(@one, %d)",
    "n = neg(%x); e = exp(%n); d = add(@one, %e); y = div(@two, %d)",
    "e = exp(%x); o = add(%e, @two); y = log(%o)",
    f"s = softplus(%x); c = less(@two, %x) : {SHAPE.replace('f32', 'bool')}; y = where(%c, %x, %s)",
    "s = softplus(%z); t = tanh(%s); y = mul(%x, %t)",
    "a = abs(%z); o = add(@one, %a); y = div(%x, %o)",
]


@pytest.mark.parametrize("text", OTHERS)
def test_other_formulas_stay(text: str) -> None:
    check_declines(RECOGNISE_ACTIVATIONS, program(text))


USED_TWICE = [
    "s = sigmoid(%x); m = mul(%x, %s); y = add(%m, %s)",
    "d = div(%x, @root); e = erf(%d); o = add(%e, @one); m = mul(%x, %o); h = mul(%m, @half); "
    "y = sub(%h, %e)",
    "s = softplus(%x); t = tanh(%s); m = mul(%x, %t); y = add(%m, %s)",
    "e = exp(%x); o = add(%e, @one); s = log(%o); y = mul(%s, %e)",
]


@pytest.mark.parametrize("text", USED_TWICE)
def test_pieces_that_serve_others_stay(text: str) -> None:
    check_declines(RECOGNISE_ACTIVATIONS, program(text))


def test_a_returned_piece_stays() -> None:
    check_declines(
        RECOGNISE_ACTIVATIONS,
        """
            func @main(%x: f32[3]) {
              %s = sigmoid(%x) : f32[3]
              %y = mul(%x, %s) : f32[3]
              return %y, %s
            }
        """,
    )


def test_scalars_of_any_rank_match_but_not_if_they_add_axes() -> None:
    check_rewrites(
        RECOGNISE_ACTIVATIONS,
        before="""
            const @root : f32[1] = [1.4142135]
            const @one : f32[1, 1] = [1]
            const @half : f32[1] = [0.5]
            func @main(%x: f32[2, 3]) {
              %d = div(%x, @root) : f32[2, 3]
              %e = erf(%d) : f32[2, 3]
              %o = add(%e, @one) : f32[2, 3]
              %m = mul(%x, %o) : f32[2, 3]
              %y = mul(%m, @half) : f32[2, 3]
              return %y
            }
        """,
        after="""
            func @main(%x: f32[2, 3]) {
              %y = gelu(%x) {approximate = false} : f32[2, 3]
              return %y
            }
        """,
    )
    check_declines(
        RECOGNISE_ACTIVATIONS,
        """
            const @root : f32[] = [1.4142135]
            const @one : f32[1, 1] = [1]
            const @half : f32[] = [0.5]
            func @main(%x: f32[3]) {
              %d = div(%x, @root) : f32[3]
              %e = erf(%d) : f32[3]
              %o = add(%e, @one) : f32[1, 3]
              %m = mul(%x, %o) : f32[1, 3]
              %y = mul(%m, @half) : f32[1, 3]
              return %y
            }
        """,
    )


def test_half_precision_with_conversions_in_between() -> None:
    check_rewrites(
        RECOGNISE_ACTIVATIONS,
        before="""
            const @root : f16[] = [1.4140625]
            const @one : f32[] = [1]
            const @half : f16[] = [0.5]
            func @main(%x: f16[2, 3]) {
              %d = div(%x, @root) : f16[2, 3]
              %w = cast(%d) {dtype = f32, saturate = true, round_mode = up} : f32[2, 3]
              %e = erf(%w) : f32[2, 3]
              %o = add(%e, @one) : f32[2, 3]
              %n = cast(%o) {dtype = f16, saturate = true, round_mode = up} : f16[2, 3]
              %m = mul(%x, %n) : f16[2, 3]
              %y = mul(%m, @half) : f16[2, 3]
              return %y
            }
        """,
        after="""
            func @main(%x: f16[2, 3]) {
              %y = gelu(%x) {approximate = false} : f16[2, 3]
              return %y
            }
        """,
        tolerance=1e-2,
    )
