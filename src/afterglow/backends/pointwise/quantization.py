"""Casts, quantization of values, and back; tables."""

from __future__ import annotations

from afterglow.backends.pointwise.conversion import cast
from afterglow.backends.pointwise.table import expression
from afterglow.backends.pointwise.value import Value
from afterglow.backends.pointwise.vocabulary import clamp, convert, look_up, rint
from afterglow.ops.conversion import Cast
from afterglow.ops.fixed_point import ByteTable, Requantize
from afterglow.ops.quantization import DequantizeLinear, QuantizeLinear
from afterglow.types.dtype import DType, f32, f64, i32, i64


@expression(Cast)
def cast_(op: Cast, x: Value) -> Value:
    """The same numbers."""
    return cast(x, op)


@expression(QuantizeLinear)
def quantize(op: QuantizeLinear, x: Value, scale: Value, zero_point: Value | None = None) -> Value:
    """x / scale, rounded, plus the zero point; the scale is broadcast already."""
    y = x / scale
    y = rint(y) if op.dtype.is_integer else y
    y = y if zero_point is None else y + convert(zero_point, y.dtype)
    y = clamp(y, *map(float, op.dtype.limits)) if op.dtype.is_integer else y
    return cast(y, Cast(op.dtype, op.saturate))


@expression(DequantizeLinear)
def dequantize(
    op: DequantizeLinear, x: Value, scale: Value, zero_point: Value | None = None
) -> Value:
    """(x - zero point) scale; integers are subtracted as integers."""
    wide = f64 if op.dtype is f64 else f32
    middle = _middle(x.dtype, wide)
    y = convert(x, middle)
    y = y if zero_point is None else y - convert(zero_point, middle)
    return convert(y, wide) * convert(scale, wide)


@expression(ByteTable)
def byte_table(op: ByteTable, x: Value) -> Value:
    """The entries of a table that the code has beside it."""
    return look_up(x, op.table)


@expression(Requantize)
def requantize(op: Requantize, x: Value, multiplier: Value, shift: Value) -> Value:
    """x multiplier / 2^shift in 64 bits; multiplier and shift are broadcast already."""
    shifts = convert(shift, i64)
    halves = shifts.like(1) << (shifts - 1)
    rounded = (convert(x, i64) * convert(multiplier, i64) + halves) >> shifts
    return convert(clamp(rounded + op.zero_point, *op.dtype.limits), op.dtype)


def _middle(stored: DType, wide: DType) -> DType:
    """In which type the difference is computed."""
    if stored.is_integer:
        return i64 if stored.bits > 32 else i32
    return wide
