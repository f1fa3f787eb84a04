from __future__ import annotations

import pytest

from afterglow.transforms.recognise_rectifiers import RECOGNISE_RECTIFIERS
from tests.transforms.rewriting import check_declines, check_rewrites

HEAD = """const @a : f32[] = [0.25]
const @zero : f32[] = [0.0]
const @one : f32[] = [1.0]
const @half : f32[] = [0.5]
const @big : f32[] = [4.0]
func @main(%x: f32[2, 3], %z: f32[2, 3], %s: f32[3], %wide: f32[4, 2, 3]) {
"""


def program(body: str) -> str:
    """A function whose nodes are written without types."""
    lines = [line.strip() for line in body.split(";")]
    nodes = [f"  %{line}" if " : " in line else f"  %{line} : f32[2, 3]" for line in lines]
    return HEAD + "\n".join([*nodes, "  return %y", "}"])


LEAKY = "y = leaky_relu(%x) {alpha = 0.25}"
PRELU = "y = prelu(%x, %s)"
_SIDES = "p = relu(%x); m = neg(%x); n = relu(%m)"
_ABSOLUTE = "p = relu(%x); a = abs(%x); d = sub(%x, %a)"

SPELLED = [
    ("k = mul(%x, @a); y = max(%x, %k)", LEAKY),
    ("k = div(%x, @big); y = max(%k, %x)", LEAKY),
    ("c = less(%x, @zero) : bool[2, 3]; k = mul(@a, %x); y = where(%c, %k, %x)", LEAKY),
    ("c = less_equal(@zero, %x) : bool[2, 3]; k = mul(@a, %x); y = where(%c, %x, %k)", LEAKY),
    (f"{_SIDES}; k = mul(@a, %n); y = sub(%p, %k)", LEAKY),
    (f"{_ABSOLUTE}; h = mul(%d, @half); k = mul(%h, @a); y = add(%p, %k)", LEAKY),
    (f"{_SIDES}; k = mul(%s, %n); y = sub(%p, %k)", PRELU),
    (f"{_SIDES}; w = neg(%s) : f32[3]; k = mul(%w, %n); y = add(%k, %p)", PRELU),
    (f"{_SIDES}; k = mul(%n, %s); y = add(%p, %k)", "y_1 = neg(%s) : f32[3]; y = prelu(%x, %y_1)"),
    (f"{_ABSOLUTE}; k = mul(%s, %d); h = mul(%k, @half); y = add(%p, %h)", PRELU),
    (f"{_ABSOLUTE}; h = mul(%d, @half); k = mul(%h, %s); y = add(%k, %p)", PRELU),
]


@pytest.mark.parametrize(("before", "after"), SPELLED)
def test_spelled_rectifier_becomes_one_op(before: str, after: str) -> None:
    unused = HEAD.split("func")[0]
    kept = program(after).replace(unused, "")
    check_rewrites(RECOGNISE_RECTIFIERS, before=program(before), after=kept)


OTHERS = [
    "k = mul(%x, @big); y = max(%x, %k)",
    "k = mul(%z, @a); y = max(%x, %k)",
    "k = add(%x, @a); y = max(%x, %k)",
    "c = less(%x, @one) : bool[2, 3]; k = mul(@a, %x); y = where(%c, %k, %x)",
    "c = less(%z, @zero) : bool[2, 3]; k = mul(@a, %x); y = where(%c, %k, %x)",
    "p = relu(%x); m = neg(%z); n = relu(%m); k = mul(@a, %n); y = sub(%p, %k)",
    f"{_ABSOLUTE}; k = mul(%s, %d); y = add(%p, %k)",
    f"{_SIDES}; k = mul(%s, %n); q = sub(%p, %k); y = add(%q, %n)",
    f"{_SIDES}; k = mul(%wide, %n) : f32[4, 2, 3]; y = sub(%p, %k) : f32[4, 2, 3]",
]


@pytest.mark.parametrize("text", OTHERS)
def test_other_formulas_stay(text: str) -> None:
    check_declines(RECOGNISE_RECTIFIERS, program(text))
