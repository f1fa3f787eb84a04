"""Comparison, bits and choice."""

from __future__ import annotations

from afterglow.backends.pointwise.table import expression
from afterglow.backends.pointwise.value import Value
from afterglow.backends.pointwise.vocabulary import (
    convert,
    differ,
    equal,
    is_nan,
    reinterpret,
    select,
)
from afterglow.ops import elementwise as ops
from afterglow.types.dtype import DType, boolean, i8, u8, u16, u32, u64

INFINITY = float("inf")
_UNSIGNED = {8: u8, 16: u16, 32: u32, 64: u64}


@expression(ops.Equal)
def equal_(op: ops.Equal, lhs: Value, rhs: Value) -> Value:
    """lhs = rhs."""
    return equal(lhs, rhs)


@expression(ops.Less)
def less(op: ops.Less, lhs: Value, rhs: Value) -> Value:
    """lhs < rhs; false is less than true."""
    return ~lhs & rhs if lhs.dtype is boolean else lhs < rhs


@expression(ops.LessEqual)
def less_equal(op: ops.LessEqual, lhs: Value, rhs: Value) -> Value:
    """lhs <= rhs."""
    return ~lhs | rhs if lhs.dtype is boolean else lhs <= rhs


@expression(ops.And)
def and_(op: ops.And, lhs: Value, rhs: Value) -> Value:
    """Bits that both have."""
    return lhs & rhs


@expression(ops.Or)
def or_(op: ops.Or, lhs: Value, rhs: Value) -> Value:
    """Bits that one of them has."""
    return lhs | rhs


@expression(ops.Xor)
def xor(op: ops.Xor, lhs: Value, rhs: Value) -> Value:
    """Bits that just one of them has."""
    return lhs ^ rhs


@expression(ops.Not)
def not_(op: ops.Not, x: Value) -> Value:
    """All bits turned."""
    return ~x


@expression(ops.ShiftLeft)
def shift_left(op: ops.ShiftLeft, lhs: Value, rhs: Value) -> Value:
    """Bits moved up; by as many places as there are, or a negative number of them, none is left."""
    if lhs.dtype is boolean:
        return lhs
    places, inside = _places(rhs)
    return select(inside, lhs << places, 0)


@expression(ops.ShiftRight)
def shift_right(op: ops.ShiftRight, lhs: Value, rhs: Value) -> Value:
    """Bits moved down; by as many places as there are, or a negative number, the sign is left."""
    if lhs.dtype is boolean:
        return lhs & ~rhs
    places, inside = _places(rhs)
    if lhs.dtype.is_signed:
        return lhs >> select(inside, places, rhs.dtype.bits - 1)
    return select(inside, lhs >> places, 0)


def _places(count: Value) -> tuple[Value, Value]:
    """Shift counts that machines can do, and a mask of the lanes in which they are exact."""
    bits = count.dtype.bits
    inside = convert(count, _UNSIGNED[bits]) < bits
    return select(inside, count, 0), inside


@expression(ops.IsNaN)
def is_nan_(op: ops.IsNaN, x: Value) -> Value:
    """What differs from itself."""
    return is_nan(x)


@expression(ops.IsInf)
def is_infinite(op: ops.IsInf, x: Value) -> Value:
    """What equals an infinity that counts."""
    found = x.of_type(boolean, False)
    if op.positive:
        found = found | equal(x, INFINITY)
    return found | equal(x, -INFINITY) if op.negative else found


@expression(ops.Where)
def where(op: ops.Where, condition: Value, then: Value, other: Value) -> Value:
    """One of two."""
    return select(condition, then, other)


@expression(ops.BitCast)
def bit_cast(op: ops.BitCast, x: Value) -> Value:
    """The same bits; a boolean is a byte."""
    return _from_byte(_to_byte(x), op.dtype)


def _to_byte(x: Value) -> Value:
    return convert(x, i8) if x.dtype is boolean else x


def _from_byte(x: Value, dtype: DType) -> Value:
    return differ(reinterpret(x, i8), 0) if dtype is boolean else reinterpret(x, dtype)
