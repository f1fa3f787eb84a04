"""Products of bytes: what their type rules refuse."""

from __future__ import annotations

import pytest

from afterglow.ops.quantized import QuantizedConv
from afterglow.support.errors import TypeRuleError
from afterglow.testing.cases.case import i8, u8
from afterglow.types import TensorType


@pytest.mark.parametrize(
    ("zero_point", "zero", "message"),
    [
        (7, u8(), "error: x has two zero points, an attribute and an operand"),
        (0, i8(), "error: x and x_zero must hold the same elements, got u8[1, 4, 3] and i8[]"),
        (0, u8(1), "error: x_zero must have 0 axes, got u8[1]"),
    ],
)
def test_a_zero_point_at_run_time_is_one_byte_of_x(
    zero_point: int, zero: TensorType, message: str
) -> None:
    op = QuantizedConv((1,), (1, 1), (1,), 1, zero_point)
    with pytest.raises(TypeRuleError) as caught:
        op.infer(u8(1, 4, 3), i8(2, 3, 3), None, None, zero)
    assert str(caught.value).splitlines()[0] == message
