"""Operands of instructions: required ones, and those that may be left out."""

from __future__ import annotations

import pytest

from afterglow.instr import OpInstr, parse_program
from afterglow.support.errors import InternalError

CONV = """
program @main {
  input  %x : f32[1, 4, 4, 2]
  input  %w : f32[3, 1, 1, 2]
  output %y : f32[1, 4, 4, 3]
  conv out %y, in %x, in %w {strides = (1, 1), pads = (0, 0, 0, 0), dilations = (1, 1), groups = 1}
}
"""


def convolution() -> OpInstr:
    (step,) = parse_program(CONV).body
    assert isinstance(step, OpInstr)
    return step


def test_required_operands_are_told_from_optional_ones() -> None:
    step = convolution()
    assert [buffer.name for buffer in step.required] == ["x", "w"]
    assert step.optional(1) is step.required[1]
    assert step.optional(2) is None


def test_a_required_operand_that_is_missing_is_an_internal_error() -> None:
    step = convolution()
    step.ins = (step.ins[0], None)
    with pytest.raises(InternalError) as caught:
        _ = step.required
    assert caught.value.what == "conv lacks one of its operands x, weight"
    with pytest.raises(InternalError) as caught:
        step.operand(1)
    assert caught.value.what == "conv lacks its operand weight"
