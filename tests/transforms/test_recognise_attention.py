from __future__ import annotations

import inspect
import re

import numpy as np
import pytest

from afterglow.graph import parse_module, print_module, run_function, verify_module
from afterglow.ops.attention import Attention
from afterglow.transforms.recognise_attention import RECOGNISE_ATTENTION
from tests.transforms.rewriting import assert_same_meaning, check_declines, check_rewrites

# Batch 2, heads 4, queries 6, keys 7, width 5, width of values 3.
Q, K, V = "f32[2, 4, 6, 5]", "f32[2, 4, 7, 5]", "f32[2, 4, 7, 3]"
TURNED, SCORES, RESULT = "f32[2, 4, 5, 7]", "f32[2, 4, 6, 7]", "f32[2, 4, 6, 3]"
LINEAR = "{transpose_lhs = false, transpose_rhs = false}"
SWAP = "{perm = (0, 1, 3, 2)}"
CAST = "saturate = true, round_mode = up}"

CONSTANTS = """const @s : f32[] = [0.25]
const @four : f32[1] = [4.0]
const @half : f32[] = [0.5]
const @zero : f32[] = [0.0]
const @least : f32[] = [-3.4028235e+38]
const @low : f32[] = [-10000.0]
"""
INPUTS = f"%q: {Q}, %k: {K}, %v: {V}, %m: f32[2, 1, 1, 7], %n: f32[4, 6, 7], %c: bool[6, 7]"

# Pieces of the programs below; each continues what the ones before it defined.
TURN = f"%t = transpose(%k) {SWAP} : {TURNED}"
PRODUCT = f"%p = matmul(%q, %t) {LINEAR} : {SCORES}"
SCALE = f"%x = mul(%p, @s) : {SCORES}"
SOFTMAX = f"%w = softmax(%x) {{axis = -1}} : {SCORES}"
MIX = f"%y = matmul(%w, %v) {LINEAR} : {RESULT}"


def program(*lines: str, inputs: str = INPUTS) -> str:
    """A function with these nodes."""
    nodes = [f"  {line}" for line in lines]
    return CONSTANTS + "\n".join([f"func @main({inputs}) {{", *nodes, "  return %y", "}"])


def attention(operands: str = "%q, %k, %v", scale: float = 0.25, causal: str = "false") -> str:
    """The node that all of it becomes."""
    return f"%y = attention({operands}) {{scale = {scale}, causal = {causal}}} : {RESULT}"


def check(before: str, after: str) -> None:
    """As `check_rewrites`; constants that `after` does not use are not written in it."""
    used = [line for line in CONSTANTS.splitlines() if f"{line.split()[1]}" in _body(after)]
    expected = "\n".join([*used, after.removeprefix(CONSTANTS)])
    check_rewrites(RECOGNISE_ATTENTION, before=before, after=expected)


def _body(text: str) -> set[str]:
    return set(re.findall(r"@\w+", text.removeprefix(CONSTANTS)))


SPELLED = [
    ((TURN, PRODUCT, SCALE, SOFTMAX, MIX), attention()),
    # The scale: by division, on either operand, on both, none.
    ((TURN, PRODUCT, f"%x = div(%p, @four) : {SCORES}", SOFTMAX, MIX), attention()),
    (
        (
            f"%a = mul(%q, @half) : {Q}",
            f"%b = mul(@half, %k) : {K}",
            f"%t = transpose(%b) {SWAP} : {TURNED}",
            f"%x = matmul(%a, %t) {LINEAR} : {SCORES}",
            SOFTMAX,
            MIX,
        ),
        attention(),
    ),
    (
        (
            f"%a = div(%q, @four) : {Q}",
            TURN,
            f"%b = mul(%t, @half) : {TURNED}",
            f"%x = matmul(%a, %b) {LINEAR} : {SCORES}",
            SOFTMAX,
            MIX,
        ),
        attention(scale=0.125),
    ),
    ((TURN, f"%x = matmul(%q, %t) {LINEAR} : {SCORES}", SOFTMAX, MIX), attention(scale=1.0)),
    # The product turns the keys itself; they are turned under other leading axes.
    (
        (
            f"%p = matmul(%q, %k) {{transpose_lhs = false, transpose_rhs = true}} : {SCORES}",
            SCALE,
            SOFTMAX,
            MIX,
        ),
        attention(),
    ),
    (
        (
            "%a = reshape(%k) {shape = (8, 7, 5)} : f32[8, 7, 5]",
            "%b = transpose(%a) {perm = (0, 2, 1)} : f32[8, 5, 7]",
            f"%t = reshape(%b) {{shape = (2, 4, 5, 7)}} : {TURNED}",
            PRODUCT,
            SCALE,
            SOFTMAX,
            MIX,
        ),
        attention(),
    ),
    # Masks that are added, before or after the scale, one or two.
    (
        (TURN, PRODUCT, SCALE, f"%z = add(%x, %m) : {SCORES}", SOFTMAX.replace("%x", "%z"), MIX),
        attention("%q, %k, %v, %m"),
    ),
    (
        (TURN, PRODUCT, SCALE, f"%z = add(%n, %x) : {SCORES}", SOFTMAX.replace("%x", "%z"), MIX),
        attention("%q, %k, %v, %n"),
    ),
    (
        (TURN, PRODUCT, f"%z = add(%p, %m) : {SCORES}", SCALE.replace("%p", "%z"), SOFTMAX, MIX),
        f"%y_1 = mul(%m, @scalar) : f32[2, 1, 1, 7]; {attention('%q, %k, %v, %y_1')}",
    ),
    (
        (
            TURN,
            PRODUCT,
            SCALE,
            f"%z = add(%n, %x) : {SCORES}",
            f"%u = add(%m, %z) : {SCORES}",
            SOFTMAX.replace("%x", "%u"),
            MIX,
        ),
        f"%y_1 = add(%m, %n) : {SCORES}; {attention('%q, %k, %v, %y_1')}",
    ),
    # A guard against rows that see nothing.
    (
        (
            TURN,
            PRODUCT,
            SCALE,
            f"%e = softmax(%x) {{axis = 3}} : {SCORES}",
            "%i = is_nan(%e) : bool[2, 4, 6, 7]",
            f"%w = where(%i, @zero, %e) : {SCORES}",
            MIX,
        ),
        attention(),
    ),
]


@pytest.mark.parametrize(("before", "after"), SPELLED)
def test_spelled_attention_becomes_one_op(before: tuple[str, ...], after: str) -> None:
    text = program(*after.split("; "))
    if "@scalar" in text:
        text = text.replace(CONSTANTS, "const @scalar : f32[] = [0.25]\n")
    check(program(*before), text)


def test_keys_straight_from_their_heads_last() -> None:
    inputs = f"%q: {Q}, %k: f32[2, 7, 4, 5], %v: {V}"
    turn = f"%t = transpose(%k) {{perm = (0, 2, 3, 1)}} : {TURNED}"
    check(
        program(turn, PRODUCT, SCALE, SOFTMAX, MIX, inputs=inputs),
        program(
            f"%y_1 = transpose(%k) {{perm = (0, 2, 1, 3)}} : {K}",
            attention("%q, %y_1, %v"),
            inputs=inputs,
        ),
    )


@pytest.mark.parametrize(
    ("choice", "then", "other"),
    [("%c, %x, @least", "0.0", "-3.4028235e+38"), ("%c, @low, %x", "-10000.0", "0.0")],
)
def test_a_condition_becomes_a_mask_that_is_added(choice: str, then: str, other: str) -> None:
    constants = f"const @constant : f32[] = [{then}]\nconst @constant_1 : f32[] = [{other}]\n"
    mask = "%y_1 = where(%c, @constant, @constant_1) : f32[6, 7]"
    check_rewrites(
        RECOGNISE_ATTENTION,
        before=program(
            TURN,
            PRODUCT,
            SCALE,
            f"%z = where({choice}) : {SCORES}",
            SOFTMAX.replace("%x", "%z"),
            MIX,
        ),
        after=program(mask, attention("%q, %k, %v, %y_1")).replace(CONSTANTS, constants),
    )


def causal_program(mask: str, body: str) -> str:
    return f"""
        const @s : f32[] = [0.25]
        const @low : f32[] = [-10000.0]
        const @mask : {mask}
        func @main(%q: f32[1, 2, 2, 4], %k: f32[1, 2, 2, 4], %v: f32[1, 2, 2, 4]) {{
          %p = matmul(%q, %k) {{transpose_lhs = false, transpose_rhs = true}} : f32[1, 2, 2, 2]
          %x = mul(%p, @s) : f32[1, 2, 2, 2]
          %z = {body} : f32[1, 2, 2, 2]
          %w = softmax(%z) {{axis = 3}} : f32[1, 2, 2, 2]
          %y = matmul(%w, %v) {LINEAR} : f32[1, 2, 2, 4]
          return %y
        }}
    """


@pytest.mark.parametrize(
    ("mask", "body"),
    [
        ("bool[1, 1, 2, 2] = [true, false, true, true]", "where(@mask, %x, @low)"),
        ("bool[2, 2] = [false, true, false, false]", "where(@mask, @low, %x)"),
        ("f32[1, 2, 2] = [0, -3.4028235e+38, 0, 0]", "add(%x, @mask)"),
        ("f32[1, 1, 2, 2] = [0, -10000, 0, 0]", "add(@mask, %x)"),
    ],
)
def test_a_mask_that_hides_what_comes_later_is_causal(mask: str, body: str) -> None:
    check_rewrites(
        RECOGNISE_ATTENTION,
        before=causal_program(mask, body),
        after="""
            func @main(%q: f32[1, 2, 2, 4], %k: f32[1, 2, 2, 4], %v: f32[1, 2, 2, 4]) {
              %y = attention(%q, %k, %v) {scale = 0.25, causal = true} : f32[1, 2, 2, 4]
              return %y
            }
        """,
    )


@pytest.mark.parametrize(
    "mask", ["f32[2, 2] = [0, -10, 0, 0]", "f32[2, 2] = [0, 0, -10000, 0]", "f32[2, 2] = fill 0"]
)
def test_other_known_masks_are_operands(mask: str) -> None:
    text = recognised(causal_program(mask, "add(%x, @mask)"))
    assert "attention(%q, %k, %v, @mask) {scale = 0.25, causal = false}" in text


def recognised(text: str) -> str:
    """What the pass makes of a program, its meaning compared."""
    module = parse_module(inspect.cleandoc(text))
    verify_module(module)
    reference = module.clone()
    assert RECOGNISE_ATTENTION.run(module.main)
    verify_module(module)
    assert_same_meaning(reference.main, module.main)
    return print_module(module)


def test_one_leading_axis_gets_a_second() -> None:
    text = recognised(f"""
        func @main(%q: f32[8, 6, 5], %k: f32[8, 7, 5], %v: f32[8, 7, 3], %m: f32[8, 1, 7]) {{
          %t = transpose(%k) {{perm = (0, 2, 1)}} : f32[8, 5, 7]
          %p = matmul(%q, %t) {LINEAR} : f32[8, 6, 7]
          %x = add(%p, %m) : f32[8, 6, 7]
          %w = softmax(%x) {{axis = 2}} : f32[8, 6, 7]
          %y = matmul(%w, %v) {LINEAR} : f32[8, 6, 3]
          return %y
        }}
    """)
    for shape in ("(8, 1, 6, 5)", "(8, 1, 7, 5)", "(8, 1, 7, 3)", "(8, 1, 1, 7)", "(8, 6, 3)"):
        assert f"shape = {shape}" in text
    assert text.count("attention") == 1
    assert "matmul" not in text


def test_a_mask_under_other_leading_axes_decides_batch_and_heads() -> None:
    text = recognised(f"""
        func @main(%q: f32[8, 6, 5], %k: f32[8, 7, 5], %v: f32[8, 7, 3], %m: f32[2, 1, 6, 7]) {{
          %t = transpose(%k) {{perm = (0, 2, 1)}} : f32[8, 5, 7]
          %p = matmul(%q, %t) {LINEAR} : f32[8, 6, 7]
          %a = reshape(%p) {{shape = (2, 4, 6, 7)}} : f32[2, 4, 6, 7]
          %b = add(%a, %m) : f32[2, 4, 6, 7]
          %x = reshape(%b) {{shape = (8, 6, 7)}} : f32[8, 6, 7]
          %w = softmax(%x) {{axis = 2}} : f32[8, 6, 7]
          %y = matmul(%w, %v) {LINEAR} : f32[8, 6, 3]
          return %y
        }}
    """)
    assert ", %m) {scale = 1.0, causal = false} : f32[2, 4, 6, 3]" in text


def test_products_under_one_leading_axis_and_a_softmax_under_two() -> None:
    check_rewrites(
        RECOGNISE_ATTENTION,
        before=f"""
            func @main(%q: f32[2, 4, 6, 5], %k: f32[2, 4, 7, 5], %v: f32[2, 4, 7, 5]) {{
              %a = reshape(%q) {{shape = (8, 6, 5)}} : f32[8, 6, 5]
              %b = reshape(%k) {{shape = (8, 7, 5)}} : f32[8, 7, 5]
              %p = matmul(%a, %b) {{transpose_lhs = false, transpose_rhs = true}} : f32[8, 6, 7]
              %x = reshape(%p) {{shape = (2, 4, 6, 7)}} : f32[2, 4, 6, 7]
              %s = softmax(%x) {{axis = 3}} : f32[2, 4, 6, 7]
              %w = reshape(%s) {{shape = (8, 6, 7)}} : f32[8, 6, 7]
              %c = reshape(%v) {{shape = (8, 7, 5)}} : f32[8, 7, 5]
              %y = matmul(%w, %c) {LINEAR} : f32[8, 6, 5]
              return %y
            }}
        """,
        after="""
            func @main(%q: f32[2, 4, 6, 5], %k: f32[2, 4, 7, 5], %v: f32[2, 4, 7, 5]) {
              %y_1 = attention(%q, %k, %v) {scale = 1.0, causal = false} : f32[2, 4, 6, 5]
              %y = reshape(%y_1) {shape = (8, 6, 5)} : f32[8, 6, 5]
              return %y
            }
        """,
    )


def test_masks_of_windows_are_added_under_five_axes() -> None:
    text = recognised(f"""
        func @main(
          %q: f32[3, 2, 4, 5], %k: f32[3, 2, 4, 5], %v: f32[3, 2, 4, 5],
          %bias: f32[1, 2, 4, 4], %m: f32[1, 3, 1, 4, 4]
        ) {{
          %t = transpose(%k) {SWAP} : f32[3, 2, 5, 4]
          %p = matmul(%q, %t) {LINEAR} : f32[3, 2, 4, 4]
          %a = add(%p, %bias) : f32[3, 2, 4, 4]
          %b = reshape(%a) {{shape = (1, 3, 2, 4, 4)}} : f32[1, 3, 2, 4, 4]
          %c = add(%b, %m) : f32[1, 3, 2, 4, 4]
          %x = reshape(%c) {{shape = (3, 2, 4, 4)}} : f32[3, 2, 4, 4]
          %w = softmax(%x) {{axis = 3}} : f32[3, 2, 4, 4]
          %y = matmul(%w, %v) {LINEAR} : f32[3, 2, 4, 5]
          return %y
        }}
    """)
    assert "reshape(%m) {shape = (3, 1, 4, 4)}" in text
    assert "attention(%q, %k, %v" in text


def test_heads_repeated_for_groups_are_shared() -> None:
    repeat = """
          %{0}1 = reshape(%{0}) {{shape = (2, 2, 1, 7, 5)}} : f32[2, 2, 1, 7, 5]
          %{0}2 = expand(%{0}1) {{shape = (2, 2, 3, 7, 5)}} : f32[2, 2, 3, 7, 5]
          %{0}3 = reshape(%{0}2) {{shape = (2, 6, 7, 5)}} : f32[2, 6, 7, 5]
    """
    check_rewrites(
        RECOGNISE_ATTENTION,
        before=f"""
            func @main(%q: f32[2, 6, 4, 5], %k: f32[2, 2, 7, 5], %v: f32[2, 2, 7, 5]) {{
              {repeat.format("k")}
              {repeat.format("v")}
              %t = transpose(%k3) {{perm = (0, 1, 3, 2)}} : f32[2, 6, 5, 7]
              %p = matmul(%q, %t) {LINEAR} : f32[2, 6, 4, 7]
              %w = softmax(%p) {{axis = 3}} : f32[2, 6, 4, 7]
              %y = matmul(%w, %v3) {LINEAR} : f32[2, 6, 4, 5]
              return %y
            }}
        """,
        after="""
            func @main(%q: f32[2, 6, 4, 5], %k: f32[2, 2, 7, 5], %v: f32[2, 2, 7, 5]) {
              %y = attention(%q, %k, %v) {scale = 1.0, causal = false} : f32[2, 6, 4, 5]
              return %y
            }
        """,
    )


def test_one_head_of_keys_serves_all_queries() -> None:
    text = recognised(f"""
        func @main(%q: f32[2, 6, 4, 5], %k: f32[2, 1, 7, 5], %v: f32[2, 1, 7, 5]) {{
          %t = transpose(%k) {{perm = (0, 1, 3, 2)}} : f32[2, 1, 5, 7]
          %p = matmul(%q, %t) {LINEAR} : f32[2, 6, 4, 7]
          %w = softmax(%p) {{axis = 3}} : f32[2, 6, 4, 7]
          %y = matmul(%w, %v) {LINEAR} : f32[2, 6, 4, 5]
          return %y
        }}
    """)
    assert "attention(%q, %k, %v)" in text


def test_half_precision_with_a_softmax_in_single() -> None:
    half = (SCORES.replace("f32", "f16"), RESULT.replace("f32", "f16"))
    check_rewrites(
        RECOGNISE_ATTENTION,
        before=f"""
            const @s : f16[] = [0.25]
            func @main(%q: f16[2, 4, 6, 5], %k: f16[2, 4, 7, 5], %v: f16[2, 4, 7, 3]) {{
              %t = transpose(%k) {SWAP} : f16[2, 4, 5, 7]
              %p = matmul(%q, %t) {LINEAR} : {half[0]}
              %x = mul(%p, @s) : {half[0]}
              %a = cast(%x) {{dtype = f32, {CAST} : {SCORES}
              %e = softmax(%a) {{axis = 3}} : {SCORES}
              %w = cast(%e) {{dtype = f16, {CAST} : {half[0]}
              %y = matmul(%w, %v) {LINEAR} : {half[1]}
              return %y
            }}
        """,
        after=f"""
            func @main(%q: f16[2, 4, 6, 5], %k: f16[2, 4, 7, 5], %v: f16[2, 4, 7, 3]) {{
              %y = attention(%q, %k, %v) {{scale = 0.25, causal = false}} : {half[1]}
              return %y
            }}
        """,
        tolerance=1e-2,
    )


OTHERS = [
    # A softmax along another axis, a scale that is no number, a product that is not turned.
    (TURN, PRODUCT, SCALE, SOFTMAX.replace("-1", "2"), MIX),
    (TURN, PRODUCT, f"%x = mul(%p, %m) : {SCORES}", SOFTMAX, MIX),
    (TURN, PRODUCT, f"%x = tanh(%p) : {SCORES}", SOFTMAX, MIX),
    # A branch that does not exclude.
    (
        TURN,
        PRODUCT,
        f"%x = where(%c, %p, @four) : {SCORES}",
        SOFTMAX,
        MIX,
    ),
    # Weights that serve others.
    (
        TURN,
        PRODUCT,
        SCALE,
        SOFTMAX,
        f"%z = matmul(%w, %v) {LINEAR} : {RESULT}",
        f"%o = slice(%w) {{starts = (0, 0, 0, 0), extents = (2, 4, 6, 3), steps = (1, 1, 1, 1)}} "
        f": {RESULT}",
        f"%y = add(%z, %o) : {RESULT}",
    ),
]


@pytest.mark.parametrize("lines", OTHERS)
def test_other_programs_stay(lines: tuple[str, ...]) -> None:
    check_declines(RECOGNISE_ATTENTION, program(*lines))


def test_keys_are_not_turned_for_a_few_queries() -> None:
    check_declines(
        RECOGNISE_ATTENTION,
        f"""
            func @main(%q: f32[2, 4, 1, 5], %k: f32[2, 4, 5, 7], %v: f32[2, 4, 7, 3]) {{
              %p = matmul(%q, %k) {LINEAR} : f32[2, 4, 1, 7]
              %w = softmax(%p) {{axis = 3}} : f32[2, 4, 1, 7]
              %y = matmul(%w, %v) {LINEAR} : f32[2, 4, 1, 3]
              return %y
            }}
        """,
    )


def test_rows_that_see_nothing_stay_finite() -> None:
    text = program(
        TURN,
        PRODUCT,
        SCALE,
        f"%z = where(%c, %x, @least) : {SCORES}",
        SOFTMAX.replace("%x", "%z"),
        MIX,
    )
    module = parse_module(text)
    reference = module.clone()
    RECOGNISE_ATTENTION.run(module.main)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(p.type.shape).astype(np.float32) for p in module.main.inputs]
    inputs[-1] = np.zeros((6, 7), np.bool_)
    (want,), (have,) = run_function(reference.main, inputs), run_function(module.main, inputs)
    np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-5)


def test_a_causal_mask_of_ranged_extents_is_known_by_the_largest() -> None:
    module = parse_module(
        inspect.cleandoc("""
        dim s : 1..7
        func @main(%q: f32[1, 2, s, 8], %k: f32[1, 2, s, 8], %v: f32[1, 2, s, 8]) {
          %i = iota() {shape = (s, 1), axis = 0, dtype = i64} : i64[s, 1]
          %j = iota() {shape = (1, s), axis = 1, dtype = i64} : i64[1, s]
          %c = less_equal(%j, %i) : bool[s, s]
          %a = matmul(%q, %k) {transpose_lhs = false, transpose_rhs = true} : f32[1, 2, s, s]
          %m = where(%c, %a, @least) : f32[1, 2, s, s]
          %w = softmax(%m) {axis = -1} : f32[1, 2, s, s]
          %r = matmul(%w, %v) {transpose_lhs = false, transpose_rhs = false} : f32[1, 2, s, 8]
          return %r
        }""").replace("func", "const @least : f32[] = [-inf]\nfunc", 1)
    )
    RECOGNISE_ATTENTION.run(module.main)
    (attention,) = (n for n in module.main.nodes if isinstance(n.op, Attention))
    assert attention.op == Attention(1.0, causal=True)
    assert len(attention.given) == 3
