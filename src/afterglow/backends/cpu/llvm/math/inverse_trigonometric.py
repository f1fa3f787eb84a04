"""Angles from their sine, cosine and tangent."""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter import (
    Value,
    absolute,
    copy_sign,
    equal,
    fma,
    is_nan,
    larger,
    reinterpret,
    select,
    sqrt,
)
from afterglow.backends.cpu.llvm.math.coefficients import ASIN, ATAN
from afterglow.backends.cpu.llvm.math.float_encoding import number_of, pi
from afterglow.backends.cpu.llvm.math.polynomial import polynomial
from afterglow.types.dtype import f32


def asin(x: Value) -> Value:
    """The inverse sine; NaN beyond -1 and 1."""
    size = absolute(x)
    far, root, bend = _asin_parts(size)
    high, low = number_of(x).words(pi(256) / 2, 2)
    complement = high - ((root + root) + (2.0 * bend - low))
    return copy_sign(select(far, complement, root + bend), x)


def acos(x: Value) -> Value:
    """The inverse cosine; NaN beyond -1 and 1."""
    far, root, bend = _asin_parts(absolute(x))
    high, low = number_of(x).words(pi(256) / 2, 2)
    double = (root + root) + 2.0 * bend
    beyond = select(x < 0.0, 2.0 * high - (double - 2.0 * low), double)
    near = high - (x - (low - copy_sign(bend, x)))
    return select(far, beyond, near)


def _asin_parts(size: Value) -> tuple[Value, Value, Value]:
    """asin of a small number as number + bend; of a large one that of sqrt((1 - size) / 2).

    For asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)). The first result says which are large.
    """
    far = size > 0.5
    square = select(far, (1.0 - size) * 0.5, size * size)
    root = select(far, sqrt(square), size)
    bend = root * square * polynomial(square, ASIN[size.dtype])
    return far, root, bend


def atan(x: Value) -> Value:
    """The inverse tangent."""
    return copy_sign(_atan_of_ratio(absolute(x), x.like(1.0)), x)


def atan2(y: Value, x: Value) -> Value:
    """The angle of the point (x, y), between -pi and pi."""
    # Huge numbers are made smaller, so that their sum is finite; two infinities become equal.
    high, wide = absolute(y), absolute(x)
    limit = 2.0**126 if x.dtype is f32 else 2.0**1022
    both = equal(high, float("inf")) & equal(wide, float("inf"))
    huge = larger(high, wide) > limit
    high, wide = (select(huge, size * 0.25, size) for size in (high, wide))
    high, wide = (select(both, 1.0, size) for size in (high, wide))
    angle = _atan_of_ratio(high, wide)
    angle = select(equal(high, 0.0), 0.0, angle)
    most, rest = number_of(x).words(pi(256), 2)
    negative = reinterpret(x, number_of(x).bits) < 0
    angle = select(negative, most - (angle - rest), angle)
    angle = select(is_nan(x) | is_nan(y), x + y, angle)
    return copy_sign(angle, y)


def _atan_of_ratio(y: Value, x: Value) -> Value:
    """atan(y / x) of numbers that are not negative.

    Between 1/2 and 2 it is pi/4 + atan((y - x) / (y + x)), beyond pi/2 - atan(x / y).
    """
    steep, middle = y > x * 2.0, y > x * 0.5
    above = select(steep, -x, select(middle, y - x, y))
    below = select(steep, y, select(middle, y + x, x))
    ratio = above / below
    number = number_of(x)
    quarter, quarter_low = number.words(pi(256) / 4, 2)
    high = select(steep, x.like(2.0 * quarter), select(middle, x.like(quarter), 0.0))
    low = select(steep, x.like(2.0 * quarter_low), select(middle, x.like(quarter_low), 0.0))
    square = ratio * ratio
    bend = fma(ratio * square, polynomial(square, ATAN[x.dtype]), low)
    return high + (ratio + bend)
