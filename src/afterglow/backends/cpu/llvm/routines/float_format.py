"""Floats as integers: taken apart into sign, exponent and significand, and put together again.

A significand is held in 64 bits whose first is set, so that there is room below for what decides
how to round. The last of them may stand for any number of bits that were shifted out.
"""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter import (
    Value,
    convert,
    differ,
    equal,
    larger,
    leading_zeros,
    select,
    smaller,
)
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType, boolean, i32, u32, u64

TOP = 1 << 63
"""The first bit of a significand."""


@dataclass(frozen=True)
class FloatFormat:
    """A format of floats: the integers that hold it, and how many bits its parts have."""

    bits: DType
    exponent_bits: int
    fraction_bits: int

    @property
    def bias(self) -> int:
        """What is added to exponents, so that they are not negative."""
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def special(self) -> int:
        """The exponent of infinity and NaN."""
        return (1 << self.exponent_bits) - 1

    @property
    def infinity(self) -> int:
        """The encoding of infinity."""
        return self.special << self.fraction_bits

    @property
    def nan(self) -> int:
        """The encoding of a quiet NaN."""
        return self.infinity | 1 << (self.fraction_bits - 1)

    @property
    def sign(self) -> int:
        """The bit of the sign."""
        return 1 << (self.exponent_bits + self.fraction_bits)

    @property
    def dropped(self) -> int:
        """Bits of a significand that the format has no room for."""
        return 63 - self.fraction_bits


SINGLE = FloatFormat(u32, 8, 23)
DOUBLE = FloatFormat(u64, 11, 52)


@dataclass(frozen=True)
class Parts:
    """A float taken apart. Zero has a significand of zero; exponents are biased."""

    form: FloatFormat
    size: Value
    """The encoding without the sign, in 64 bits."""
    negative: Value
    exponent: Value
    significand: Value

    @property
    def is_nan(self) -> Value:
        """Whether it is NaN."""
        return self.size > self.form.infinity

    @property
    def is_infinite(self) -> Value:
        """Whether it is one of the two infinities."""
        return equal(self.size, self.form.infinity)

    @property
    def is_zero(self) -> Value:
        """Whether it is one of the two zeros."""
        return equal(self.size, 0)


def take_apart(x: Value, form: FloatFormat) -> Parts:
    """The parts of an encoded float; subnormal numbers become like others."""
    wide = convert(x, u64)
    size = wide & (form.sign - 1)
    field = size >> form.fraction_bits
    fraction = (size & ((1 << form.fraction_bits) - 1)) << form.dropped
    zeros = leading_zeros(fraction)
    is_subnormal = equal(field, 0)
    shifted = fraction << (zeros & 63)
    significand = select(is_subnormal, shifted, fraction | TOP)
    exponent = select(is_subnormal, 1 - convert(zeros, i32), convert(field, i32))
    return Parts(form, size, differ(wide & form.sign, 0), exponent, significand)


def put_together(form: FloatFormat, negative: Value, exponent: Value, significand: Value) -> Value:
    """The nearest float, ties to even; the first bit of the significand must be set."""
    below = smaller(larger(1 - exponent, 0), 63)
    significand = shift_down(significand, below)
    lowest = 1 << form.dropped
    rest, kept = significand & (lowest - 1), significand >> form.dropped
    half = lowest >> 1
    up = (rest > half) | (equal(rest, half) & differ(kept & 1, 0))
    field = smaller(larger(exponent, 1), form.special) - 1
    code = (convert(field, u64) << form.fraction_bits) + kept + convert(up, u64)
    return with_sign(form, smaller(code, form.infinity), negative)


def with_sign(form: FloatFormat, size: Value, negative: Value) -> Value:
    """An encoding of 64 bits, with a sign, as the format holds it."""
    return convert(size | select(negative, size.like(form.sign), size.like(0)), form.bits)


def shift_down(significand: Value, count: Value) -> Value:
    """Shifted right by 0 to 63; the last bit is set if anything was lost."""
    places = convert(count, u64)
    kept = significand >> places
    return kept | convert(differ(kept << places, significand), u64)


def normalised(significand: Value) -> tuple[Value, Value]:
    """Shifted left until the first bit is set, and by how much; of zero, zero."""
    zeros = leading_zeros(significand)
    return significand << (zeros & 63), convert(zeros, i32)


def no(value: Value) -> Value:
    """The condition that never holds."""
    return Value.of(value.code, boolean, 0)
