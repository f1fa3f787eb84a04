"""Casts, quantization of values, and back; tables, and roots of integers."""

from __future__ import annotations

import numpy as np

from afterglow.backends.pointwise.conversion import cast
from afterglow.backends.pointwise.table import expression
from afterglow.backends.pointwise.value import Value
from afterglow.backends.pointwise.vocabulary import (
    add_saturating,
    clamp,
    convert,
    divide_by_scalar,
    high_product,
    look_up,
    nearest_integer,
    nearest_quotients,
    rint,
    select,
)
from afterglow.ops.conversion import Cast
from afterglow.ops.fixed_point import HIGH_BITS, ByteTable, IntegerSqrt, Requantize, root_bits
from afterglow.ops.quantization import DequantizeLinear, QuantizeLinear
from afterglow.types.dtype import DType, f32, f64, i16, i32, i64, u8

MOST_WHOLE = 2.0**30
"""Larger numbers count as this: they are limited to a byte, and the zero point can be added."""


@expression(Cast)
def cast_(op: Cast, x: Value) -> Value:
    """The same numbers."""
    return cast(x, op)


@expression(QuantizeLinear)
def quantize(op: QuantizeLinear, x: Value, scale: Value, zero_point: Value | None = None) -> Value:
    """x / scale, rounded, plus the zero point; the scale is broadcast already."""
    vector = nearest_quotients(x, scale, MOST_WHOLE) if op.dtype is u8 else None
    if vector is not None:
        return _vector_of_bytes(vector, zero_point)
    y = divide_by_scalar(x, scale) if op.dtype.is_integer else x / scale
    whole = nearest_integer(y) if op.dtype.is_integer and op.dtype.bits < 32 else None
    if whole is not None:
        return _quantized_at_once(whole, zero_point, op.dtype)
    y = rint(y) if op.dtype.is_integer else y
    y = y if zero_point is None else y + convert(zero_point, y.dtype)
    y = clamp(y, *map(float, op.dtype.limits)) if op.dtype.is_integer else y
    return cast(y, Cast(op.dtype, op.saturate))


def _quantized_at_once(whole: Value, zero_point: Value | None, dtype: DType) -> Value:
    """The nearest integer plus the zero point: sums that are not clipped are those of floats."""
    if zero_point is not None:
        whole = add_saturating(whole, convert(zero_point, i32))
    return convert(whole, dtype, saturate=True)


def _vector_of_bytes(whole: Value, zero_point: Value | None) -> Value:
    """The same of vectors, whose integers are limited as they become bytes; NaN is 0."""
    whole = whole if zero_point is None else whole + convert(zero_point, i32)
    return convert(clamp(whole, *u8.limits), u8)


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
    """The entries of a table that the code has beside it; of 16 bits, of one for each byte."""
    if op.dtype.bits == 8:
        return look_up(x, op.table)
    parts = (op.table & 0xFF).astype(np.uint8), (op.table >> 8).astype(np.int8)
    low, high = (look_up(x, part) for part in parts)
    return convert(low, i16) | (convert(high, i16) << 8)


@expression(Requantize)
def requantize(op: Requantize, x: Value, multiplier: Value, shift: Value) -> Value:
    """x multiplier / 2^shift in 64 bits; multiplier and shift are broadcast already."""
    if op.twice:
        return _requantized_twice(op, x, multiplier, shift)
    shifts = convert(shift, i64)
    halves = shifts.like(1) << (shifts - 1)
    rounded = (convert(x, i64) * convert(multiplier, i64) + halves) >> shifts
    return convert(clamp(rounded + op.zero_point, *op.dtype.limits), op.dtype)


def _requantized_twice(op: Requantize, x: Value, multiplier: Value, shift: Value) -> Value:
    """Only the product has 64 bits: the half that is added is one less for what is negative."""
    high = high_product(x, multiplier)
    rest = shift - HIGH_BITS
    halves = ((rest.like(1) << rest) + (high >> (i32.bits - 1))) >> 1
    rounded = ((high + halves) >> rest) + op.zero_point
    return convert(rounded, op.dtype, saturate=True)


@expression(IntegerSqrt)
def integer_sqrt(op: IntegerSqrt, x: Value) -> Value:
    """Bit by bit: no machine rounds it in another way, and none needs floats for it."""
    rest, root = x, x.like(0)
    for bit in root_bits(x.dtype):
        tried = root + bit
        fits = tried <= rest
        rest = select(fits, rest - tried, rest)
        root = (root >> 1) + select(fits, x.like(bit), x.like(0))
    return root


def _middle(stored: DType, wide: DType) -> DType:
    """In which type the difference is computed."""
    if stored.is_integer:
        return i64 if stored.bits > 32 else i32
    return wide
