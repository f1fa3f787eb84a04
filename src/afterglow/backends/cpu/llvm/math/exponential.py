"""Powers of e and of 2, and the logistic function."""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter import (
    Value,
    absolute,
    clamp,
    copy_sign,
    fma,
    reinterpret,
    select,
)
from afterglow.backends.cpu.llvm.math.coefficients import EXP, EXP2
from afterglow.backends.cpu.llvm.math.double_word import DoubleWord, ordered_sum
from afterglow.backends.cpu.llvm.math.float_encoding import (
    LOG_2,
    nearest_whole,
    number_of,
    power_of_two,
    scale,
    whole_of,
)
from afterglow.backends.cpu.llvm.math.polynomial import polynomial
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import f32


def exp(x: Value) -> Value:
    """e to the x."""
    part = reduced(clamp(x, *exponent_limits(x)))
    return scale(part.mantissa, part.exponent)


def exp_down(x: Value) -> Value:
    """e to the x, for x <= 0, as softmax needs it: what is below the least normal number is 0."""
    least = -87.0 if x.dtype is f32 else -708.0
    part = grown(clamp(x, least, None))
    return select(x < least, 0.0, fma(part.power, part.growth, part.power))


def exp2(x: Value) -> Value:
    """2 to the x."""
    low, high = (-150.0, 128.0) if x.dtype is f32 else (-1076.0, 1024.0)
    x = clamp(x, low, high)
    whole, exponent = nearest_whole(x)
    rest = x - whole
    return scale(fma(rest, polynomial(rest, EXP2[x.dtype]), 1.0), exponent)


def expm1(x: Value) -> Value:
    """e to the x, less 1, precise where that is small."""
    low = -17.5 if x.dtype is f32 else -38.0
    part = reduced(clamp(x, low, exponent_limits(x)[1]), exact=True)
    # 2^n (1 + g) - 1 is 2^n ((1 - 2^-n) + g), where 2^-n of large n is lost in rounding.
    few = clamp(part.exponent, None, 2 * number_of(x).fraction_bits)
    offset = 1.0 - power_of_two(0 - few, x.dtype)
    total = ordered_sum(offset, part.rest)
    grown = total.high + (total.low + part.bend)
    return copy_sign(scale(grown, part.exponent), x)


def sigmoid(x: Value) -> Value:
    """1 / (1 + e to the -x); of very negative x as small as e to the x."""
    # With p = e^-|x| it is 1 / (1 + p), or p / (1 + p) where x is negative. What is lost in
    # rounding p and the divisor is made good in the end, nearly.
    part = reduced(clamp(-absolute(x), exponent_limits(x)[0], None))
    mantissa = ordered_sum(x.like(1.0), part.rest + part.bend)
    power = scale(mantissa.high, part.exponent)
    divisor = ordered_sum(x.like(1.0), power)
    negative = x < 0.0
    quotient = select(negative, power, 1.0) / divisor.high
    lost = select(negative, mantissa.low, 0.0) - divisor.low
    return fma(quotient, lost, quotient)


def exponent_limits(x: Value) -> tuple[float, float]:
    """Outside, e to the x is 0 or infinite; inside, its exponent is one that `scale` takes."""
    return (-104.0, 89.0) if x.dtype is f32 else (-746.0, 710.0)


@dataclass(frozen=True)
class Reduced:
    """e^x as 2^exponent (1 + rest + bend), where |rest| <= log(2) / 2."""

    exponent: Value
    rest: Value
    bend: Value

    @property
    def mantissa(self) -> Value:
        """1 + rest + bend."""
        return 1.0 + (self.rest + self.bend)

    @property
    def words(self) -> DoubleWord:
        """1 + rest + bend in two words."""
        total = ordered_sum(self.rest.like(1.0), self.rest)
        return ordered_sum(total.high, total.low + self.bend)


def reduced(x: Value, *, exact: bool = False) -> Reduced:
    """Take out whole multiples of log(2); x must be within `exponent_limits`, or NaN.

    If it is to be exact, what is lost in rounding the rest, an eighth of a unit in the last place
    of e^x, goes into the bend.
    """
    rounded, count = _multiples_of_log_2(x, number_of(x).rounder)
    near, rest = _without(x, count)
    bend = rest * rest * polynomial(rest, EXP[x.dtype])
    if exact:
        _, low = _log_2(x)
        bend = bend + fma(count, -low, near - rest)
    return Reduced(whole_of(rounded), rest, bend)


@dataclass(frozen=True)
class Grown:
    """e^x, or a part of it, as power (1 + growth), where the power is one of 2."""

    power: Value
    growth: Value


def grown(x: Value, *, halvings: int = 0) -> Grown:
    """As `reduced`, with fewer operations; e^x, halved so often, must be a normal number."""
    number = number_of(x)
    # With the bias beside the rounder, the last bits of the sum are those of the power's exponent.
    rounded, count = _multiples_of_log_2(x, number.rounder + (number.bias - halvings))
    power = reinterpret(reinterpret(rounded, number.bits) << number.fraction_bits, x.dtype)
    _, rest = _without(x, count)
    return Grown(power, fma(rest * rest, polynomial(rest, EXP[x.dtype]), rest))


def _multiples_of_log_2(x: Value, rounder: float) -> tuple[Value, Value]:
    """How many x holds, with the rounder and without."""
    rounded = fma(x, number_of(x).nearest(1 / LOG_2), rounder)
    return rounded, rounded - rounder


def _without(x: Value, count: Value) -> tuple[Value, Value]:
    """What is left of x without multiples of log(2): nearly, which is exact, and wholly."""
    high, low = _log_2(x)
    near = fma(count, -high, x)  # exact: the product has few bits
    return near, fma(count, -low, near)


def _log_2(x: Value) -> tuple[float, float]:
    """Log(2) in two words, of which the first has few bits."""
    return number_of(x).short_words(LOG_2, 10 if x.dtype is f32 else 32)
