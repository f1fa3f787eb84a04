"""Numbers as the unevaluated sum of two floats: twice the bits, at a few times the price.

The low word is at most half a unit in the last place of the high one, which therefore is the
nearest float. Sums and products are exact, or err by a few units of 2^-46 (2^-104) of the result.
"""

from __future__ import annotations

from fractions import Fraction

from afterglow.backends.cpu.llvm.emitter import Value, equal, fma, select, sqrt
from afterglow.backends.cpu.llvm.emitter.arithmetic import fuses
from afterglow.backends.cpu.llvm.math.float_encoding import number_of
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class DoubleWord:
    """high + low."""

    high: Value
    low: Value

    @staticmethod
    def constant(like: Value, exact: Fraction) -> DoubleWord:
        """An exact number, of the type of another value."""
        high, low = number_of(like).words(exact, 2)
        return DoubleWord(like.like(high), like.like(low))

    def __neg__(self) -> DoubleWord:
        return DoubleWord(-self.high, -self.low)

    def __add__(self, other: DoubleWord) -> DoubleWord:
        total = two_sum(self.high, other.high)
        return ordered_sum(total.high, total.low + (self.low + other.low))

    def __sub__(self, other: DoubleWord) -> DoubleWord:
        return self + -other

    def __mul__(self, other: DoubleWord) -> DoubleWord:
        product = two_product(self.high, other.high)
        cross = fma(self.high, other.low, self.low * other.high)
        return ordered_sum(product.high, product.low + cross)

    def __truediv__(self, other: DoubleWord) -> DoubleWord:
        inverse = 1.0 / other.high
        quotient = self.high * inverse
        back = two_product(quotient, other.high)
        rest = ((self.high - back.high) - back.low) + fma(quotient, -other.low, self.low)
        return ordered_sum(quotient, rest * inverse)

    def times(self, factor: Value) -> DoubleWord:
        """The product with a float."""
        product = two_product(self.high, factor)
        return ordered_sum(product.high, fma(self.low, factor, product.low))

    def scaled(self, power: Value | float) -> DoubleWord:
        """The product with a power of two, which is exact."""
        return DoubleWord(self.high * power, self.low * power)

    def root(self) -> DoubleWord:
        """The square root, of what is not negative."""
        near = sqrt(self.high)
        square = two_product(near, near)
        rest = ((self.high - square.high) - square.low) + self.low
        double = select(equal(near, 0.0), 1.0, near + near)
        return ordered_sum(near, rest / double)


def two_sum(a: Value, b: Value) -> DoubleWord:
    """a + b, exactly."""
    total = a + b
    part = total - a
    return DoubleWord(total, (a - (total - part)) + (b - part))


def ordered_sum(larger: Value, smaller: Value) -> DoubleWord:
    """a + b, exactly, if a is not the smaller of the two (or is a multiple of b's last place)."""
    total = larger + smaller
    return DoubleWord(total, smaller - (total - larger))


def two_product(a: Value, b: Value) -> DoubleWord:
    """a * b, exactly, unless it is huge or tiny."""
    product = a * b
    if fuses(product):
        return DoubleWord(product, fma(a, b, -product))
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    rest = ((a_high * b_high - product) + a_high * b_low) + a_low * b_high
    return DoubleWord(product, rest + a_low * b_low)


def _halves(x: Value) -> tuple[Value, Value]:
    """x as a sum of two floats of half the bits, so that their products are exact."""
    shifted = x * (2.0 ** ((number_of(x).fraction_bits + 2) // 2) + 1)
    high = shifted - (shifted - x)
    return high, x - high
