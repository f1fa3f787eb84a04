"""The exponentials of softmax."""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter import Value, clamp, equal, fma, reinterpret, select
from afterglow.backends.cpu.llvm.math.coefficients import EXP2
from afterglow.backends.cpu.llvm.math.float_encoding import nearest_whole, number_of
from afterglow.backends.cpu.llvm.math.polynomial import polynomial

LOWEST = float("-inf")


def power_down(x: Value) -> Value:
    """2 to the x, for x <= 0; what is below the least normal number is 0."""
    number = number_of(x)
    least = float(1 - number.bias)
    bounded = clamp(x, least, None)
    whole, exponent = nearest_whole(bounded)
    rest = bounded - whole
    mantissa = fma(rest, polynomial(rest, EXP2[x.dtype]), 1.0)
    bits = reinterpret(mantissa, number.bits) + (exponent << number.fraction_bits)
    return select(x < least, 0.0, reinterpret(bits, x.dtype))


def weight(score: Value, peak: Value, unit: float) -> Value:
    """2 to the (score - peak) times the unit; the peak is finite."""
    below = score - peak
    return power_down(below if unit == 1.0 else below * unit)


def finite_peak(peak: Value) -> Value:
    """The peak, or 0 if no key is seen."""
    return select(equal(peak, LOWEST), 0.0, peak)
