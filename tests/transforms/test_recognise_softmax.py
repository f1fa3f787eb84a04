from __future__ import annotations

import pytest

from afterglow.transforms.recognise_softmax import RECOGNISE_SOFTMAX
from tests.transforms.rewriting import check_declines, check_rewrites

HEAD = """const @zero : f32[] = [0.0]
func @main(%x: f32[2, 3, 4], %z: f32[2, 3, 4], %u: f32[2, 1, 4]) {
"""


def program(body: str) -> str:
    """A function whose nodes are written without types; `small` and `peak` ones are reduced."""
    nodes = []
    for line in body.split(";"):
        text = line.strip()
        if "reduce" in text and "axes" not in text:
            text += " {axes = (1,), keepdims = true}"
        small = text.startswith("small ") or "reduce" in text
        shape = "f32[2, 1, 4]" if small else "f32[2, 3, 4]"
        text = text.removeprefix("small ")
        nodes.append(f"  %{text}" if " : " in text else f"  %{text} : {shape}")
    return HEAD + "\n".join([*nodes, "  return %y", "}"])


_SHIFTED = "p = reduce_max(%x); d = sub(%x, %p); e = exp(%d); t = reduce_sum(%e)"
SOFTMAX = "y = softmax(%x) {axis = 1}"
LOG_SOFTMAX = "y = log_softmax(%x) {axis = 1}"

SPELLED = [
    ("e = exp(%x); t = reduce_sum(%e); y = div(%e, %t)", SOFTMAX),
    (f"{_SHIFTED}; y = div(%e, %t)", SOFTMAX),
    (f"{_SHIFTED}; small i = reciprocal(%t); y = mul(%e, %i)", SOFTMAX),
    (f"{_SHIFTED}; small i = reciprocal(%t); y = mul(%i, %e)", SOFTMAX),
    (
        "p = reduce_max(%x); d = sub(%x, %p); y = softmax(%d) {axis = -2}",
        "y = softmax(%x) {axis = -2}",
    ),
    ("s = softmax(%x) {axis = 1}; y = log(%s)", LOG_SOFTMAX),
    (f"{_SHIFTED}; s = div(%e, %t); y = log(%s)", LOG_SOFTMAX),
    ("e = exp(%x); t = reduce_sum(%e); small l = log(%t); y = sub(%x, %l)", LOG_SOFTMAX),
    (f"{_SHIFTED}; small l = log(%t); y = sub(%d, %l)", LOG_SOFTMAX),
    (f"{_SHIFTED}; small l = log(%t); small a = add(%p, %l); y = sub(%x, %a)", LOG_SOFTMAX),
    (
        "p = reduce_max(%x); i = is_inf(%p) {positive = true, negative = true} : bool[2, 1, 4]; "
        "small q = where(%i, @zero, %p); d = sub(%x, %q); e = exp(%d); t = reduce_sum(%e); "
        "small l = log(%t); small a = add(%l, %q); y = sub(%x, %a)",
        LOG_SOFTMAX,
    ),
]


@pytest.mark.parametrize(("before", "after"), SPELLED)
def test_spelled_softmax_becomes_one_op(before: str, after: str) -> None:
    expected = program(after).replace(HEAD.splitlines()[0] + "\n", "")
    check_rewrites(RECOGNISE_SOFTMAX, before=program(before), after=expected)


OTHERS = [
    # The sum of others, of two axes, another function.
    "e = exp(%x); f = exp(%z); t = reduce_sum(%f); y = div(%e, %t)",
    "e = exp(%x); t = reduce_mean(%e); y = div(%e, %t)",
    "e = exp(%x); t = reduce_sum(%e) {axes = (1, 2), keepdims = true} : f32[2, 1, 1]; "
    "y = div(%e, %t)",
    "e = exp(%x); t = reduce_sum(%e); small l = log(%t); y = sub(%z, %l)",
    "e = exp(%x); t = reduce_sum(%e); small l = log(%t); small a = add(%u, %l); y = sub(%x, %a)",
    # A piece that serves others.
    "e = exp(%x); t = reduce_sum(%e); s = div(%e, %t); y = mul(%s, %t)",
    "s = softmax(%x) {axis = 1}; l = log(%s); y = mul(%s, %l)",
    # A shift that changes along the axis.
    "d = sub(%x, %u); y = softmax(%d) {axis = 2}",
    "d = sub(%x, %z); y = softmax(%d) {axis = 1}",
]


@pytest.mark.parametrize("text", OTHERS)
def test_other_formulas_stay(text: str) -> None:
    check_declines(RECOGNISE_SOFTMAX, program(text))
