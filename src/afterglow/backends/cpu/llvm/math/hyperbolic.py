"""Hyperbolic functions and their inverses."""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter import (
    Value,
    absolute,
    clamp,
    copy_sign,
    equal,
    fma,
    is_nan,
    select,
)
from afterglow.backends.cpu.llvm.math.coefficients import SINH, TANH
from afterglow.backends.cpu.llvm.math.double_word import DoubleWord, two_product, two_sum
from afterglow.backends.cpu.llvm.math.exponential import reduced
from afterglow.backends.cpu.llvm.math.float_encoding import number_of, power_of_two, scale
from afterglow.backends.cpu.llvm.math.logarithm import log1p_words
from afterglow.backends.cpu.llvm.math.polynomial import polynomial
from afterglow.types.dtype import f32

INFINITY, NAN = float("inf"), float("nan")


def sinh(x: Value) -> Value:
    """The hyperbolic sine."""
    size = absolute(x)
    square = size * size
    small = fma(size * square, polynomial(square, SINH[x.dtype]), size)
    return copy_sign(select(size < 1.0, small, _half_sum(size, -1.0)), x)


def cosh(x: Value) -> Value:
    """The hyperbolic cosine."""
    return _half_sum(absolute(x), 1.0)


def _half_sum(size: Value, sign: float) -> Value:
    """(e^size + sign * e^-size) / 2, with e^size in two words."""
    part = reduced(clamp(size, None, 91.0 if size.dtype is f32 else 712.0), exact=True)
    power = part.words
    inverse = DoubleWord(size.like(1.0), size.like(0.0)) / power
    # e^size is 2^n power: e^-size is 2^-n / power, and so 2^-2n / power beside it.
    down = power_of_two(-2 * clamp(part.exponent, None, 60), size.dtype) * sign
    total = power + inverse.scaled(down)
    return scale(total.high, part.exponent - 1)


def tanh(x: Value) -> Value:
    """The hyperbolic tangent."""
    size = absolute(x)
    square = size * size
    small = fma(size * square, polynomial(square, TANH[x.dtype]), size)
    part = reduced(clamp(size, None, 10.0 if x.dtype is f32 else 22.0) * 2.0)
    power = part.mantissa * power_of_two(part.exponent, x.dtype)
    large = 1.0 - 2.0 / (power + 1.0)
    return copy_sign(select(size < 0.6, small, large), x)


def asinh(x: Value) -> Value:
    """The inverse hyperbolic sine: log(a + sqrt(a^2 + 1)) of a = |x|."""
    size = absolute(x)
    huge, bounded = _huge(size)
    zero, one = size.like(0.0), DoubleWord(size.like(1.0), size.like(0.0))
    square = two_product(bounded, bounded)
    inner = DoubleWord(bounded, zero) + square / (one + (one + square).root())
    result = _log1p_or_log(inner, size, huge)
    return copy_sign(select((size < INFINITY) & ~_tiny(size), result, size), x)


def acosh(x: Value) -> Value:
    """The inverse hyperbolic cosine: log(x + sqrt(x^2 - 1)); NaN below 1."""
    huge, bounded = _huge(x)
    over = two_sum(bounded, x.like(-1.0))
    two = DoubleWord(x.like(2.0), x.like(0.0))
    root = (over * (over + two)).root()
    result = _log1p_or_log(over + root, x, huge)
    result = select(x < INFINITY, result, x)
    return select(x < 1.0, NAN, result)


def atanh(x: Value) -> Value:
    """The inverse hyperbolic tangent: log((1 + x) / (1 - x)) / 2; NaN beyond -1 and 1."""
    size = absolute(x)
    zero = size.like(0.0)
    ratio = DoubleWord(size * 2.0, zero) / two_sum(size.like(1.0), -size)
    result = log1p_words(ratio, zero).scaled(0.5).high
    result = select(size < 1.0, result, NAN)
    result = select(equal(size, 1.0), INFINITY, result)
    return copy_sign(select(is_nan(x) | _tiny(size), size, result), x)


def _tiny(size: Value) -> Value:
    """Where the function is its argument: the cube is lost in rounding."""
    return size < 2.0 ** -((number_of(size).fraction_bits + 3) // 2)


def _huge(size: Value) -> tuple[Value, Value]:
    """Where a 1 beside the square is lost in rounding; and the sizes without those."""
    limit = 2.0 ** ((number_of(size).fraction_bits + 7) // 2)
    huge = size > limit
    return huge, select(huge, 1.0, size)


def _log1p_or_log(inner: DoubleWord, size: Value, huge: Value) -> Value:
    """log(1 + inner), or log(2 size) of huge sizes."""
    less = two_sum(size, size.like(-1.0))
    high = select(huge, less.high, inner.high)
    low = select(huge, less.low, inner.low)
    doublings = select(huge, size.like(1.0), 0.0)
    return log1p_words(DoubleWord(high, low), doublings).high
