"""Between floats and integers, and between formats of floats."""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter import Value, convert, equal, larger, select, smaller
from afterglow.backends.cpu.llvm.routines.float_format import (
    FloatFormat,
    no,
    normalised,
    put_together,
    take_apart,
    with_sign,
)
from afterglow.types.dtype import DType, i64, u64


def from_integer(form: FloatFormat, x: Value) -> Value:
    """The nearest float of an integer with or without a sign."""
    negative = x < 0 if x.dtype.is_signed else no(x)
    wide = convert(convert(x, i64 if x.dtype.is_signed else u64), u64)
    size = select(negative, 0 - wide, wide)
    significand, zeros = normalised(size)
    exponent = (form.bias + 63) - zeros
    made = put_together(form, negative, exponent, significand)
    return select(equal(size, 0), made.like(0), made)


def to_integer(form: FloatFormat, x: Value, dtype: DType) -> Value:
    """An integer without the fraction; what has none that is near enough gives any."""
    parts = take_apart(x, form)
    places = (form.bias + 63) - parts.exponent
    size = parts.significand >> convert(smaller(larger(places, 0), 63), u64)
    size = select(places > 63, size.like(0), size)
    if dtype.is_signed:
        size = select(parts.negative, 0 - size, size)
    return convert(size, dtype)


def to_form(x: Value, source: FloatFormat, wanted: FloatFormat) -> Value:
    """The nearest float of another format."""
    parts = take_apart(x, source)
    exponent = parts.exponent + (wanted.bias - source.bias)
    made = put_together(wanted, parts.negative, exponent, parts.significand)
    zero = with_sign(wanted, parts.size.like(0), parts.negative)
    infinite = with_sign(wanted, parts.size.like(wanted.infinity), parts.negative)
    made = select(parts.is_zero, zero, made)
    made = select(parts.is_infinite, infinite, made)
    return select(parts.is_nan, made.like(wanted.nan), made)
