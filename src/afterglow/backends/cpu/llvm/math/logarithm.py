"""Logarithms."""

from __future__ import annotations

from fractions import Fraction

from afterglow.backends.cpu.llvm.emitter import Value, clamp, equal, fma, select
from afterglow.backends.cpu.llvm.math.coefficients import LOG, LOG_RATIO
from afterglow.backends.cpu.llvm.math.double_word import DoubleWord, ordered_sum, two_sum
from afterglow.backends.cpu.llvm.math.float_encoding import (
    LOG_2,
    LOG_10,
    as_float,
    number_of,
    power_of_two,
    split_exponent,
)
from afterglow.backends.cpu.llvm.math.polynomial import polynomial
from afterglow.types.dtype import f32

INFINITY, NAN = float("inf"), float("nan")


def log(x: Value) -> Value:
    """The natural logarithm."""
    mantissa, exponent = split_exponent(x)
    return _at_the_edges(x, _sum(mantissa - 1.0, as_float(exponent, x), None))


def log1p(x: Value) -> Value:
    """The natural logarithm of 1 + x, precise where x is small."""
    total = two_sum(x.like(1.0), x)
    mantissa, exponent = split_exponent(total.high)
    near = equal(exponent, 0)
    rest = select(near, x, mantissa - 1.0)
    lost = select(near, 0.0, total.low * _inverse_power(exponent, x))
    result = _sum(rest, as_float(exponent, x), lost)
    result = select(equal(x, 0.0), x, result)
    return _at_the_edges(total.high, result)


def _sum(f: Value, k: Value, lost: Value | None) -> Value:
    """log(1 + f) + k log(2), where `lost` is what the rounding of f left out."""
    number = number_of(f)
    high, low = number.short_words(LOG_2, 10 if f.dtype is f32 else 32)
    square = f * f
    small = k * low
    if lost is not None:
        small = fma(lost, (1.0 - f) + square, small)  # lost / (1 + f), nearly
    if f.dtype is f32:
        tail = fma(f * square, polynomial(f, LOG[f.dtype]), small)
        return fma(k, high, f + fma(square, -0.5, tail))
    ratio = f / (2.0 + f)
    half = square * 0.5
    bend = ratio * ratio * polynomial(ratio * ratio, (2 / 3, *LOG_RATIO[f.dtype]))
    return fma(k, high, f - (half - fma(ratio, half + bend, small)))


def _at_the_edges(x: Value, result: Value) -> Value:
    """Of zero minus infinity, of what is negative NaN, of infinity itself."""
    result = select(x < INFINITY, result, x)  # NaN too is returned as it is
    result = select(equal(x, 0.0), -INFINITY, result)
    return select(x < 0.0, NAN, result)


def log2(x: Value) -> Value:
    """The logarithm to the base 2; exact of powers of two."""
    return _at_the_edges(x, log2_words(x).high)


def log10(x: Value) -> Value:
    """The logarithm to the base 10."""
    mantissa, exponent = split_exponent(x)
    logarithm = log_words(DoubleWord(mantissa - 1.0, x.like(0.0)))
    return _at_the_edges(x, _scaled(logarithm, 1 / LOG_10, exponent, LOG_2 / LOG_10).high)


def log2_words(x: Value) -> DoubleWord:
    """The logarithm to the base 2 of a positive number, in two words."""
    mantissa, exponent = split_exponent(x)
    logarithm = log_words(DoubleWord(mantissa - 1.0, x.like(0.0)))
    return _scaled(logarithm, 1 / LOG_2, exponent, Fraction(1))


def _scaled(logarithm: DoubleWord, factor: Fraction, exponent: Value, unit: Fraction) -> DoubleWord:
    """factor * logarithm + exponent * unit."""
    count = as_float(exponent, logarithm.high)
    product = logarithm * DoubleWord.constant(count, factor)
    return DoubleWord.constant(count, unit).times(count) + product


def log1p_words(x: DoubleWord, doublings: Value) -> DoubleWord:
    """log(1 + x) + doublings * log(2) in two words; x is not negative."""
    total = two_sum(x.high.like(1.0), x.high)
    total = ordered_sum(total.high, total.low + x.low)
    mantissa, exponent = split_exponent(total.high)
    near = equal(exponent, 0)
    rest = two_sum(mantissa - 1.0, total.low * _inverse_power(exponent, x.high))
    chosen = DoubleWord(select(near, x.high, rest.high), select(near, x.low, rest.low))
    count = as_float(exponent, x.high) + doublings
    return DoubleWord.constant(count, LOG_2).times(count) + log_words(chosen)


def _inverse_power(exponent: Value, like: Value) -> Value:
    """2^-exponent; of the largest exponents a little more, where it does not matter."""
    most = number_of(like).bias - 1
    return power_of_two(0 - clamp(exponent, None, most), like.dtype)


def log_words(f: DoubleWord) -> DoubleWord:
    """log(1 + f) in two words, where sqrt(1/2) <= 1 + f <= sqrt(2).

    With s = f / (2 + f) it is 2 s + s^3 (2/3 + 2/5 s^2 + …).
    """
    two = DoubleWord(f.high.like(2.0), f.high.like(0.0))
    ratio = f / (two + f)
    square = ratio * ratio
    inner = square.high * polynomial(square.high, LOG_RATIO[f.high.dtype])
    lead = DoubleWord.constant(f.high, Fraction(2, 3))
    series = ordered_sum(lead.high, inner)
    series = ordered_sum(series.high, series.low + lead.low)
    return ratio.scaled(2.0) + ratio * square * series
