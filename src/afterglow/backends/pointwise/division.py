"""Quotients, remainders and powers that are exact, and never stop the program."""

from __future__ import annotations

from afterglow.backends.pointwise.conversion import to_integer
from afterglow.backends.pointwise.value import Value
from afterglow.backends.pointwise.vocabulary import (
    absolute,
    call,
    convert,
    copy_sign,
    differ,
    equal,
    has_doubles,
    quotient,
    reinterpret,
    select,
)
from afterglow.types.dtype import DType, f32, f64, i64, u64

_POWER_BITS = 7
"""Bits of an exponent that count: what is not -1, 0 or 1 overflows after 64."""


def divide_integers(lhs: Value, rhs: Value) -> Value:
    """lhs / rhs, rounded towards zero; 0 where rhs is 0."""
    if rhs.constant not in (None, 0, -1):
        return quotient(lhs, rhs)  # a product and a shift
    none = equal(rhs, 0)
    if not rhs.dtype.is_signed:
        return select(none, 0, _divide(lhs, select(none, 1, rhs)))
    # The least integer by -1 is too large: as a difference it wraps around.
    opposite = equal(rhs, -1)
    result = select(opposite, 0 - lhs, _divide(lhs, select(none | opposite, 1, rhs)))
    return select(none, 0, result)


def _divide(lhs: Value, rhs: Value) -> Value:
    """The quotient, by floats where they are exact: machines rarely divide vectors of integers."""
    through = _exact_float(lhs)
    if through is None:
        return quotient(lhs, rhs)
    return convert(convert(lhs, through) / convert(rhs, through), lhs.dtype)


def _exact_float(x: Value) -> DType | None:
    """The float whose quotients, without their fraction, are those of the integers."""
    if x.dtype.bits <= 16:
        return f32
    return f64 if x.dtype.bits == 32 and has_doubles(x) else None


def modulo_integers(lhs: Value, rhs: Value, *, truncated: bool) -> Value:
    """What the quotient leaves, with the sign of rhs, or of lhs if truncated; 0 where rhs is 0."""
    rest = lhs - divide_integers(lhs, rhs) * rhs
    if not truncated and rhs.dtype.is_signed:
        rest = select(differ(rest, 0) & ((rest < 0) ^ (rhs < 0)), rest + rhs, rest)
    return select(equal(rhs, 0), 0, rest)


def modulo_floats(lhs: Value, rhs: Value, *, truncated: bool) -> Value:
    """The same of floats, exactly; NaN where rhs is 0 or lhs infinite."""
    rest = call("fmod", lhs, rhs)
    if truncated:
        return rest
    moved = select((rest < 0.0) ^ (rhs < 0.0), rest + rhs, rest)
    return select(equal(rest, 0.0), copy_sign(rest, rhs), moved)


def power_of_integers(base: Value, exponent: Value) -> Value:
    """base to the exponent, as f64 has it, rounded towards zero."""
    wide = i64 if base.dtype.is_signed else u64
    factor = convert(base, wide)
    count = reinterpret(absolute(convert(exponent, wide)), u64)
    odd = select(count < 1 << 53, count & 1, 0)  # beyond, f64 has only even numbers
    count = select(count > 64, odd + 64, count)
    exact, near = factor.like(1), convert(factor.like(1), f64)
    estimate = convert(factor, f64)
    for bit in range(_POWER_BITS):
        wanted = differ(count & (1 << bit), 0)
        exact = select(wanted, exact * factor, exact)
        near = select(wanted, near * estimate, near)
        factor, estimate = factor * factor, estimate * estimate
    fits = absolute(near) < 2.0 ** (63 if wide is i64 else 64)
    result = select(fits, convert(exact, f64), near)
    if wide is i64:
        result = select(exponent < 0, 1.0 / result, result)
    return to_integer(result, base.dtype)
