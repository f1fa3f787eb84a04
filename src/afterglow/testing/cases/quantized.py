"""Cases of afterglow.ops.quantized."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from afterglow.ops.quantized import QuantizedConv, QuantizedMatMul
from afterglow.testing.cases.case import Case, case, f32, i8, i32, u8
from afterglow.types import TensorType

_SAME = QuantizedConv((1, 1), (1, 1, 1, 1), (1, 1), x_zero_point=7)
_PADDED = QuantizedConv((1, 1), (1, 0, 1, 2), (1, 1))
_PLAIN = QuantizedConv((1, 1), (0, 0, 0, 0), (1, 1))


def _case(op: QuantizedConv | QuantizedMatMul, *types: TensorType | None) -> Case:
    """A case with bytes of all sizes, and ordinary scales."""
    if len(types) == 2 or types[2] is None:
        return case(op, *types, low=-128, high=127)
    shape = types[2].shape
    scale = np.linspace(1e-4, 1e-3, max(1, math.prod(shape)), dtype=np.float32).reshape(shape)
    return case(op, *types, given={2: scale}, low=-128, high=127, tolerance=1e-4)


CASES = [
    _case(_PLAIN, u8(2, 4, 5, 8), i8(6, 1, 1, 8), f32(6), i32(6)),
    _case(_PLAIN, i8(1, 3, 3, 5), u8(20, 1, 1, 5), f32()),
    _case(_SAME, u8(1, 5, 6, 3), i8(4, 3, 3, 3), f32(4), i32(4)),
    _case(_SAME, i8(1, 5, 6, 4), i8(37, 3, 3, 4), f32()),
    _case(_SAME, u8(2, 9, 9, 16), i8(16, 3, 3, 16), f32(16), i32(16)),
    _case(
        QuantizedConv((2, 1), (0, 1, 2, 0), (1, 2), 1, 128, 100),
        *(u8(1, 7, 8, 2), u8(3, 3, 2, 2), f32(3), i32(3)),
    ),
    _case(QuantizedConv((2,), (1, 1), (1,), 1, -3), i8(2, 9, 4), i8(3, 3, 4), f32(3)),
    _case(QuantizedConv((1, 1), (1,) * 4, (1, 1), 2, 9, 3), u8(2, 5, 4, 4), i8(6, 3, 3, 2), f32()),
    _case(
        QuantizedConv((1, 1), (1,) * 4, (1, 1), 20, 5), u8(1, 5, 6, 20), i8(20, 3, 3, 1), f32(20)
    ),
    _case(QuantizedConv((2, 2), (1,) * 4, (2, 1), 3, 255), u8(1, 9, 6, 3), i8(6, 3, 3, 1), f32()),
    _case(_SAME, u8(0, 5, 6, 3), i8(4, 3, 3, 3), f32()),
    _case(_PLAIN, u8(1, 3, 3, 0), i8(2, 3, 3, 0), f32(), i32(2)),
    _case(QuantizedMatMul(), u8(5, 8), i8(8, 3), f32(3), i32(3)),
    _case(QuantizedMatMul(lhs_zero_point=12, rhs_zero_point=-7), u8(2, 5, 9), i8(9, 70), f32()),
    _case(QuantizedMatMul(True, False, 0, 120), i8(2, 1, 9, 5), u8(3, 9, 4), f32(4)),
    _case(QuantizedMatMul(False, True, 128, 3), u8(2, 2, 3, 6), u8(2, 1, 5, 6), f32(), i32(5)),
    _case(QuantizedMatMul(False, True, 3), u8(1, 300), i8(40, 300), f32(40), i32(40)),
    _case(_SAME, u8(1, 5, 6, 3), i8(4, 3, 3, 3), None, i32(4)),
    _case(QuantizedConv((1, 1), (1,) * 4, (1, 1), 20, 5), u8(1, 5, 6, 20), i8(20, 3, 3, 1)),
    _case(QuantizedMatMul(lhs_zero_point=9), u8(5, 30), i8(30, 21)),
    _case(QuantizedMatMul(lhs_zero_point=9, rhs_zero_point=-2), i8(5, 8), i8(8, 3), None, i32(3)),
    _case(QuantizedMatMul(lhs_zero_point=3), u8(2, 0), i8(0, 3), f32(), i32(3)),
    _case(_PLAIN, u8(2, 4, 5, 8), i8(6, 1, 1, 8), None, None, u8()),
    _case(_PADDED, u8(1, 5, 6, 3), i8(4, 3, 3, 3), None, i32(4), u8()),
    _case(_PADDED, i8(1, 5, 6, 4), u8(37, 3, 3, 4), f32(37), i32(37), i8()),
    _case(
        replace(_PADDED, weight_zero_point=-9), u8(1, 5, 6, 8), i8(5, 3, 3, 8), f32(), None, u8()
    ),
    _case(replace(_PADDED, groups=20), u8(1, 5, 6, 20), i8(20, 3, 3, 1), None, None, u8()),
    _case(replace(_PADDED, groups=20), i8(1, 5, 6, 20), i8(20, 3, 3, 1), f32(20), i32(20), i8()),
]
