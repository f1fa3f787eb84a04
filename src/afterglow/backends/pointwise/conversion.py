"""From one element type to another, with the answers of NumPy where a number does not fit."""

from __future__ import annotations

from afterglow.backends.pointwise.value import Value, ValueT
from afterglow.backends.pointwise.vocabulary import (
    absolute,
    clamp,
    convert,
    is_nan,
    reinterpret,
    select,
)
from afterglow.ops.conversion import FLOAT8, Cast, PowerRounding
from afterglow.types.dtype import DType, f4e2m1, f8e8m0, f16, f32, f64, i32, i64, u8, u64

_FRACTION_BITS = 52
_F64_BIAS, _POWER_BIAS = 1023, 127
_NO_POWER, _LARGEST_POWER = 255, 254
_TO_NEXT_POWER = {
    PowerRounding.UP: (1 << _FRACTION_BITS) - 1,
    PowerRounding.NEAREST: 1 << (_FRACTION_BITS - 1),
    PowerRounding.DOWN: 0,
}
"""What to add to the bits of an f64 so that its exponent is the one that is meant."""


def cast(x: Value, op: Cast) -> Value:
    """The same numbers as `op.dtype`."""
    if op.dtype is f8e8m0:
        return to_power(x, op.saturate, op.round_mode)
    if op.dtype in FLOAT8:
        return convert(convert(x, f32), op.dtype, saturate=op.saturate)
    if op.dtype.is_float:
        return to_float(x, op.dtype)
    if op.dtype.is_integer and x.dtype.is_float:
        return to_integer(x, op.dtype)
    return convert(x, op.dtype)


def to_float(x: ValueT, dtype: DType) -> ValueT:
    """The nearest floats; all below 32 bits but f16 are rounded from f32."""
    if x.dtype is f64 and dtype.is_narrow_float and dtype is not f16:
        x = convert(x, f32)
    if dtype is f4e2m1 and x.dtype is f32:
        x = select(is_nan(x), 0.0, x)  # it has no NaN
    return convert(x, dtype)


def to_integer(x: Value, dtype: DType) -> Value:
    """Floats without their fraction; what does not fit is as the machine answers, and wraps."""
    if dtype.bits < 32:
        return convert(convert(x, i32), dtype)
    if dtype.is_signed:
        return convert(x, dtype)
    signed = i64 if dtype is u64 else i32
    half = 2.0 ** (dtype.bits - 1)
    large = x >= half
    rest = convert(convert(select(large, x - half, x), signed), dtype)
    return rest ^ select(large, rest.like(1 << (dtype.bits - 1)), 0)


def to_power(x: Value, saturate: bool, mode: PowerRounding) -> Value:
    """Powers of two, by their exponents: codes 0 to 254 stand for 2^-127 to 2^127, 255 for NaN."""
    size = absolute(convert(x, f64))
    exponent = (reinterpret(size, i64) + _TO_NEXT_POWER[mode]) >> _FRACTION_BITS
    code = exponent - (_F64_BIAS - _POWER_BIAS)
    if saturate:
        code = clamp(code, 0, _LARGEST_POWER)
    powerless = is_nan(size) | (code < 0) | (code > _LARGEST_POWER)
    return reinterpret(convert(select(powerless, _NO_POWER, code), u8), f8e8m0)
