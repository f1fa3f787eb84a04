"""Powers with any exponent, and roots."""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter import (
    Value,
    absolute,
    clamp,
    differ,
    equal,
    fma,
    is_nan,
    reinterpret,
    rint,
    select,
    sqrt,
)
from afterglow.backends.cpu.llvm.math.coefficients import EXP2
from afterglow.backends.cpu.llvm.math.float_encoding import LOG_2, nearest_whole, number_of, scale
from afterglow.backends.cpu.llvm.math.logarithm import log2_words
from afterglow.backends.cpu.llvm.math.polynomial import polynomial
from afterglow.types.dtype import f32

INFINITY, NAN = float("inf"), float("nan")


def rsqrt(x: Value) -> Value:
    """1 / sqrt(x)."""
    return 1.0 / sqrt(x)


def pow(x: Value, y: Value) -> Value:
    """x to the y, with C's answers at the edges: whatever to the 0, and 1 to whatever, is 1."""
    size = absolute(x)
    whole = equal(rint(y), y)
    odd = whole & differ(rint(y * 0.5), y * 0.5)
    result = _power(size, y)
    edge = equal(size, 0.0) | equal(size, INFINITY)
    grows = equal(size, 0.0) ^ (y > 0.0)
    result = select(edge, select(grows, x.like(INFINITY), 0.0), result)
    negative = reinterpret(x, number_of(x).bits) < 0
    result = select((x < 0.0) & ~whole & (size < INFINITY), NAN, result)
    result = select(negative & odd, -result, result)
    result = select(is_nan(x) | is_nan(y), x + y, result)
    return select(equal(y, 0.0) | equal(x, 1.0), 1.0, result)


def _power(size: Value, y: Value) -> Value:
    """2^(y log2(size)) of a finite positive size."""
    single = size.dtype is f32
    # Beyond this y the result is infinite or zero already, whatever the size is but 1.
    most = 2.0**40 if single else 2.0**70
    exponent = log2_words(size).times(clamp(y, -most, most))
    limit = 160.0 if single else 1100.0
    inside = absolute(exponent.high) < limit
    low = select(inside, exponent.low, 0.0)
    high = clamp(exponent.high, -limit, limit)
    whole, count = nearest_whole(high)
    rest = high - whole
    growth = rest * polynomial(rest, EXP2[size.dtype])
    growth = fma(low * float(LOG_2), 1.0 + growth, growth)
    return scale(1.0 + growth, count)
