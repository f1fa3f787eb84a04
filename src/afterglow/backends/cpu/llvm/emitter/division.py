"""Division of many numbers by one: the divisor is inverted once, and quotients are corrected."""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter.arithmetic import (
    absolute,
    copy_sign,
    fma,
    fuses,
    is_nan,
    select,
    smaller,
)
from afterglow.backends.cpu.llvm.emitter.value import Value
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import f32

FAR = 2.0**100
"""Divisors beyond this, or below its inverse, are brought nearer to 1 first."""
NEARER = 2.0**64


def divide_by_scalar(x: Value, divisor: Value) -> Value:
    """x / divisor, to the bit what a division gives if that is no less than 2^-60.

    A divisor that is known where the function begins, and in all lanes, is inverted there. The
    product with the inverse is close to the quotient, and a correction, by a remainder that is
    exact, rounds as division does (Markstein's theorem).

    That pays where tiles compute products of bytes, so that the units of vectors are idle. Where
    these compute the products, a division costs less, since it has a unit of its own.
    """
    inverse = _inverse_of(x, divisor)
    if inverse is None:
        return x / divisor
    x = x * inverse.nearer
    product = x * inverse.high
    quotient = inverse.divide(x)
    return select(is_nan(quotient), product, quotient)


def limited_quotient(x: Value, divisor: Value, most: float) -> Value:
    """x / divisor to the same bits, where a quotient of more than a number counts as it.

    What is too far below zero for f32 may become NaN: so no infinity has to be looked after.
    """
    inverse = _inverse_of(x, divisor)
    if inverse is None:
        return smaller(most, x / divisor)
    with x.code.at_entry():
        limit = inverse.near * most
    return inverse.divide(smaller(limit, x * inverse.nearer))


@dataclass(frozen=True)
class _Inverse:
    """1 / divisor = nearer (high + low), and near = 1 / (high + low), in all lanes."""

    nearer: Value
    near: Value
    high: Value
    low: Value

    def divide(self, x: Value) -> Value:
        """x / near: both parts of the inverse give one of the two nearest floats, or the one."""
        close = fma(x, self.high, x * self.low)
        return fma(fma(-close, self.near, x), self.high, close)


def _inverse_of(x: Value, divisor: Value) -> _Inverse | None:
    """The inverse of a divisor, made where the function begins, if that is known to pay."""
    scalar = divisor.scalar
    if scalar is None or scalar.text not in x.code.entry_names:
        return None
    if x.dtype is not f32 or not fuses(x) or not x.code.target.byte_tiles:
        return None
    with x.code.at_entry():
        return _Inverse(*(value.splat(x.lanes) for value in _inverted(scalar)))


def _inverted(divisor: Value) -> tuple[Value, Value, Value, Value]:
    """What `_Inverse` has; zero, infinity and NaN are divided by with the product alone."""
    size, one = absolute(divisor), divisor.like(1.0)
    scale = select(size > FAR, 1 / NEARER, select(size < 1 / FAR, NEARER, one))
    usual = (size > 0.0) & (size < float("inf"))
    nearer = select(usual, copy_sign(scale, divisor), one / divisor)
    near = select(usual, size * scale, one)
    high = one / near
    return nearer, near, high, fma(-high, near, one) * high
