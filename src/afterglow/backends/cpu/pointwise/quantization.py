"""Casts, quantization of values, and back; tables, and roots of integers."""

from __future__ import annotations

import numpy as np

from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    Value,
    add_saturating,
    clamp,
    convert,
    look_up,
    nearest_integer,
    rint,
    select,
)
from afterglow.backends.cpu.pointwise.conversion import cast
from afterglow.backends.cpu.pointwise.table import expression
from afterglow.ops.conversion import Cast
from afterglow.ops.fixed_point import ByteTable, IntegerSqrt, Requantize, root_bits
from afterglow.ops.quantization import DequantizeLinear, QuantizeLinear
from afterglow.types import Array
from afterglow.types.dtype import DType, f32, f64, i16, i32, i64


@expression(Cast)
def cast_(op: Cast, x: Value) -> Value:
    """The same numbers."""
    return cast(x, op)


@expression(QuantizeLinear)
def quantize(op: QuantizeLinear, x: Value, scale: Value, zero_point: Value | None = None) -> Value:
    """x / scale, rounded, plus the zero point; the scale is broadcast already."""
    y = x / scale
    if _rounds_at_once(y, op.dtype):
        return _quantized_at_once(y, zero_point, op.dtype)
    y = rint(y) if op.dtype.is_integer else y
    y = y if zero_point is None else y + convert(zero_point, y.dtype)
    y = clamp(y, *map(float, op.dtype.limits)) if op.dtype.is_integer else y
    return cast(y, Cast(op.dtype, op.saturate))


def _rounds_at_once(y: Value, dtype: DType) -> bool:
    """Whether an instruction makes integers of such numbers, and rounds them."""
    single = y.dtype is f32 and y.lanes == 1
    return single and y.code.target.rounding_conversion and dtype.is_integer and dtype.bits < 32


def _quantized_at_once(y: Value, zero_point: Value | None, dtype: DType) -> Value:
    """The nearest integer plus the zero point: sums that are not clipped are those of floats."""
    whole = nearest_integer(y)
    if zero_point is not None:
        whole = add_saturating(whole, convert(zero_point, i32))
    return convert(whole, dtype, saturate=True)


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
        return _entries(op.table, x)
    parts = (op.table & 0xFF).astype(np.uint8), (op.table >> 8).astype(np.int8)
    low, high = (_entries(part, x) for part in parts)
    return convert(low, i16) | (convert(high, i16) << 8)


def _entries(table: Array, x: Value) -> Value:
    code = x.code
    assert isinstance(code, Emitter)
    return look_up(code.module.table(code, "table", table), x)


@expression(Requantize)
def requantize(op: Requantize, x: Value, multiplier: Value, shift: Value) -> Value:
    """x multiplier / 2^shift in 64 bits; multiplier and shift are broadcast already."""
    shifts = convert(shift, i64)
    halves = shifts.like(1) << (shifts - 1)
    rounded = (convert(x, i64) * convert(multiplier, i64) + halves) >> shifts
    return convert(clamp(rounded + op.zero_point, *op.dtype.limits), op.dtype)


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
