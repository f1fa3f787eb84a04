"""Division of many numbers by one: the divisor is inverted once, and quotients are corrected."""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter.arithmetic import (
    absolute,
    fma,
    fuses,
    is_nan,
    select,
)
from afterglow.backends.cpu.llvm.emitter.value import Value
from afterglow.types.dtype import f32

FAR = 2.0**100
"""Divisors beyond this, or below its inverse, are brought nearer to 1 first."""
NEARER = 2.0**64


def divide_by_scalar(x: Value, divisor: Value) -> Value:
    """x / divisor, to the bit what a division gives if that is no less than 2^-60.

    A divisor that is known where the function begins, and in all lanes, is inverted there. The
    product with the inverse is close to the quotient; each correction, by a remainder that is
    exact, brings it closer, and the second one rounds as division does (Markstein's theorem).

    That pays where tiles compute products of bytes, so that the units of vectors are idle. Where
    these compute the products, a division costs less, since it has a unit of its own.
    """
    scalar = divisor.scalar
    if scalar is None or scalar.text not in x.code.entry_names:
        return x / divisor
    if x.dtype is not f32 or not fuses(x) or not x.code.target.byte_tiles:
        return x / divisor
    with x.code.at_entry():
        nearer, near, inverse = (value.splat(x.lanes) for value in _inverted(scalar))
    x = x * nearer
    product = x * inverse
    quotient = product
    for _ in range(2):
        quotient = fma(fma(-quotient, near, x), inverse, quotient)
    return select(is_nan(quotient), product, quotient)


def _inverted(divisor: Value) -> tuple[Value, Value, Value]:
    """A factor that brings a divisor near 1, their product, and the inverse of that."""
    size = absolute(divisor)
    nearer = select(size > FAR, 1 / NEARER, select(size < 1 / FAR, NEARER, size.like(1.0)))
    near = divisor * nearer
    return nearer, near, near.like(1.0) / near
