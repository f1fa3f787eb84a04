"""Facts about f32 and f64, exact constants, and working on the bits of a float."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np

from afterglow.backends.cpu.llvm.emitter import Value, convert, reinterpret, select
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType, f32, f64, i32, i64

LOG_2 = Fraction("0.693147180559945309417232121458176568075500134360255254120680009493393621969694")
LOG_10 = Fraction(
    "2.302585092994045684017991454684364207601101488628772976033327900967572609677352"
)


@cache
def pi(bits: int) -> Fraction:
    """Pi to that many bits after the point, by Machin's formula: 16 atan(1/5) - 4 atan(1/239)."""
    one = 1 << (bits + 32)

    def inverse_tangent(inverse: int) -> int:
        power = total = one // inverse
        divisor, sign = 1, 1
        while power:
            power //= inverse * inverse
            divisor, sign = divisor + 2, -sign
            total += sign * (power // divisor)
        return total

    return Fraction(16 * inverse_tangent(5) - 4 * inverse_tangent(239), one)


@dataclass(frozen=True)
class FloatEncoding:
    """How a float is encoded, and bounds that follow."""

    dtype: DType
    bits: DType
    """The integers of the same width."""
    fraction_bits: int
    bias: int

    @property
    def least_normal(self) -> float:
        """Below it numbers have fewer bits."""
        return 2.0 ** (1 - self.bias)

    @property
    def rounder(self) -> float:
        """Beside it there is no room for a fraction: to add it is to round to a whole number.

        The whole number then stands in the last bits of the sum.
        """
        return 1.5 * 2.0**self.fraction_bits

    def nearest(self, exact: Fraction) -> float:
        """The float nearest to an exact number."""
        number = np.float32(float(exact)) if self.dtype is f32 else np.float64(float(exact))
        return float(number)

    def words(self, exact: Fraction, count: int) -> list[float]:
        """An exact number as a sum of floats, each the nearest to what is left."""
        words = []
        for _ in range(count):
            words.append(self.nearest(exact))
            exact -= Fraction(words[-1])
        return words

    def short_words(self, exact: Fraction, bits: int) -> tuple[float, float]:
        """An exact number as a float of few bits, whose products are exact, and the rest."""
        scale = 2**bits
        high = Fraction(round(exact * scale), scale)
        return float(high), self.nearest(exact - high)


_NUMBERS = {f32: FloatEncoding(f32, i32, 23, 127), f64: FloatEncoding(f64, i64, 52, 1023)}


def number_of(x: Value) -> FloatEncoding:
    """The facts of a value's type."""
    if x.dtype not in _NUMBERS:
        raise TypeError(f"functions are of f32 and f64, not of {x.dtype}: convert it first")
    return _NUMBERS[x.dtype]


def nearest_whole(x: Value) -> tuple[Value, Value]:
    """The nearest whole number, as a float and as an integer.

    It must be below 2^22 (2^51); of NaN the float is NaN and the integer anything.
    """
    number = number_of(x)
    sum_ = x + number.rounder
    return sum_ - number.rounder, whole_of(sum_)


def whole_of(rounded: Value) -> Value:
    """The whole number in the last bits of a sum with the rounder."""
    number = number_of(rounded)
    start = int(np.array(number.rounder, number.dtype.numpy).view(number.bits.numpy))
    return reinterpret(rounded, number.bits) - start


def power_of_two(exponent: Value, dtype: DType) -> Value:
    """2 to a whole number that a normal float can have as its exponent."""
    number = _NUMBERS[dtype]
    return reinterpret((exponent + number.bias) << number.fraction_bits, dtype)


def scale(x: Value, exponent: Value) -> Value:
    """x * 2^exponent, rounded once: also if that is infinite, subnormal or zero.

    The exponent may be twice as far from zero as that of a normal float.
    """
    width = x.lanes * x.dtype.bits
    if x.code.target.avx512 and width in (128, 256, 512):
        return _scale_at_once(x, convert(exponent, x.dtype), width)
    half = exponent >> 1
    return x * power_of_two(half, x.dtype) * power_of_two(exponent - half, x.dtype)


def _scale_at_once(x: Value, exponent: Value, width: int) -> Value:
    """x * 2^exponent by the instruction for it."""
    kind = "ps" if x.dtype is f32 else "pd"
    mask = f"i{max(x.lanes, 8)} -1" + (", i32 4" if width == 512 else "")
    operands = f"{x.typed}, {exponent.typed}, {x.typed}, {mask}"
    name = f"@llvm.x86.avx512.mask.scalef.{kind}.{width}"
    return x.derive(f"call {x.type} {name}({operands})")


def split_exponent(x: Value) -> tuple[Value, Value]:
    """A positive number as m * 2^k with sqrt(1/2) <= m < sqrt(2): m, and k as an integer."""
    number = number_of(x)
    tiny = x < number.least_normal
    lifted = select(tiny, x * 2.0**number.fraction_bits, x)
    bits = reinterpret(lifted, number.bits)
    root = int(np.array(0.5**0.5, number.dtype.numpy).view(number.bits.numpy))
    exponent = (bits - root) >> number.fraction_bits
    mantissa = reinterpret(bits - (exponent << number.fraction_bits), x.dtype)
    return mantissa, exponent - select(tiny, bits.like(number.fraction_bits), 0)


def as_float(exponent: Value, like: Value) -> Value:
    """An integer as a float of another value's type."""
    return convert(exponent, like.dtype)
