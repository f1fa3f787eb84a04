"""Cases of afterglow.ops.fixed_point."""

from __future__ import annotations

import numpy as np

from afterglow.ops.fixed_point import ENTRIES, ByteTable, IntegerSqrt, Requantize
from afterglow.testing.cases.case import Case, case, i8, i32, i64, u8
from afterglow.types import TensorType
from afterglow.types import dtype as d

_BYTES = tuple(int(number) for number in np.random.default_rng(3).permutation(ENTRIES))
_SIGNED = tuple(number - 128 for number in _BYTES)
_WIDE = tuple(257 * number - 32768 for number in _BYTES)
_ALL = np.arange(ENTRIES, dtype=np.uint8)

_TIES = np.array([-6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5], np.int32)

_SQUARES = np.array([-5, 0, 1, 3, 4, 8, 9, 46340**2 - 1, 46340**2, 2**31 - 1])
_LARGE_SQUARES = np.array([3037000499**2 - 1, 3037000499**2, 2**63 - 1, -(2**63)])


def _case(op: Requantize, x: TensorType, columns: int | None = None) -> Case:
    """A case with sums of all sizes, and ordinary scales; one, or one for each column."""
    part = i32() if columns is None else i32(columns)
    count = columns or 1
    multiplier = np.linspace(2**30, 2**31 - 1, count).astype(np.int32).reshape(part.shape)
    shift = (38 + np.arange(count) % 5).astype(np.int32).reshape(part.shape)
    given = {1: multiplier, 2: shift}
    return case(op, x, part, part, given=given, low=-40000, high=40000)


def _ties(op: Requantize) -> Case:
    """A case with quotients by two and four that lie between two numbers."""
    given = {0: _TIES, 1: np.array(1, np.int32), 2: np.array(2, np.int32)}
    return case(op, i32(12), i32(), i32(), given=given)


def _twice(op: Requantize) -> Case:
    """A case whose first rounding decides the second, with halves of both signs and extremes."""
    x = np.concatenate((_TIES, [7, -7, 1023, -1023, 2**31 - 1, -(2**31), -(2**31) + 1]))
    multiplier = np.array([2**30, 2**31 - 1, 2**30, 1518500250], np.int32)
    shift = np.array([31, 31, 33, 61], np.int32)
    given = {0: np.repeat(x[:, None], 4, 1).astype(np.int32), 1: multiplier, 2: shift}
    return case(op, i32(len(x), 4), i32(4), i32(4), given=given)


CASES = [
    case(ByteTable(_BYTES), u8(ENTRIES), given={0: _ALL}),
    case(ByteTable(_SIGNED, d.i8), u8(3, 70), low=0, high=255),
    case(ByteTable(_BYTES), i8(2, 5, 9), low=-128, high=127),
    case(ByteTable(_SIGNED, d.i8), i8(ENTRIES), given={0: _ALL.view(np.int8)}),
    case(ByteTable(_BYTES), u8(0, 3)),
    case(ByteTable(_WIDE, d.i16), u8(ENTRIES), given={0: _ALL}),
    case(ByteTable(_WIDE, d.i16), i8(2, 70), low=-128, high=127),
    _case(Requantize(), i32(3, 70)),
    _case(Requantize(zero_point=11), i32(2, 5, 37), 37),
    _case(Requantize(zero_point=-4, dtype=d.i8), i32(5, 3, 20), 20),
    _case(Requantize(1, 7, d.i32), i32(4, 6, 3), 6),
    _case(Requantize(), i32(0, 3)),
    _ties(Requantize(zero_point=100)),
    _ties(Requantize(dtype=d.i32)),
    _case(Requantize(zero_point=3, dtype=d.i16), i32(3, 7)),
    _case(Requantize(zero_point=-4, dtype=d.i8, twice=True), i32(5, 3, 20), 20),
    _twice(Requantize(zero_point=100, twice=True)),
    _twice(Requantize(dtype=d.i32, twice=True)),
    _twice(Requantize(zero_point=-3, dtype=d.i32, twice=True)),
    case(IntegerSqrt(), i32(10), given={0: _SQUARES.astype(np.int32)}),
    case(IntegerSqrt(), i64(10), given={0: _SQUARES}),
    case(IntegerSqrt(), i64(4), given={0: _LARGE_SQUARES}),
    case(IntegerSqrt(), i32(0, 3)),
]
