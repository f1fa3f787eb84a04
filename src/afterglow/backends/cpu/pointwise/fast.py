"""Functions of which networks compute many: one exponential or one quotient of polynomials each.

They are a little less exact than those of the vector math, and take half to three quarters of the
time.
"""

from __future__ import annotations

from afterglow.backends.cpu.llvm import math
from afterglow.backends.cpu.llvm.emitter import (
    Value,
    absolute,
    clamp,
    copy_sign,
    fma,
    select,
)
from afterglow.backends.cpu.llvm.math.exponential import grown
from afterglow.backends.cpu.llvm.math.polynomial import polynomial
from afterglow.types.dtype import f32

# erf(x / sqrt(2)) = x P(x^2) / Q(x^2) up to the limit, where it rounds to 1; the largest error is
# 2^-25.7. Fitted by tests/backends/cpu/pointwise/fit.py.
_ERF_LIMIT = 5.42
_ERF_TOP = (
    0.7978845238685608,
    0.06630799174308777,
    0.009063110686838627,
    0.00031015946296975017,
    1.023638469632715e-05,
)
_ERF_BOTTOM = (
    1.0,
    0.24977070093154907,
    0.02798888087272644,
    0.0017840758664533496,
    6.517204019473866e-05,
    7.371036190306768e-07,
    -1.8238374144274871e-09,
)


def sigmoid(x: Value, factor: Value | float = 1.0) -> Value:
    """factor / (1 + e^-x)."""
    low, high = (-89.0, 30.0) if x.dtype is f32 else (-710.0, 50.0)
    # Half of e^-x is finite where e^-x is not.
    part = grown(-clamp(x, low, high), halvings=1)
    half = fma(part.power, part.growth, part.power)
    return factor / (half + half + 1.0)


def expm1(x: Value) -> Value:
    """e^x - 1, for x <= 50: 2^n (1 + g) - 1 = 2^n g + (2^n - 1)."""
    part = grown(clamp(x, -17.5 if x.dtype is f32 else -38.0, None))
    return fma(part.power, part.growth, part.power - 1.0)


def tanh(x: Value) -> Value:
    """t / (t + 2) of t = e^(2 |x|) - 1."""
    size = clamp(absolute(x), None, 10.0 if x.dtype is f32 else 22.0)
    grown = expm1(size + size)
    return copy_sign(grown / (grown + 2.0), x)


def log1p_of_fraction(x: Value) -> Value:
    """log(1 + x), for 0 <= x <= 1: 2 (s + s^3 / 3 + s^5 / 5 + …) of s = x / (x + 2)."""
    terms = 8 if x.dtype is f32 else 17
    ratio = x / (x + 2.0)
    base = clamp(ratio, 2.0**-30, None)  # its square is never subnormal, which would be slow
    return ratio * polynomial(base * base, [2 / (2 * power + 1) for power in range(terms)])


def normal_distribution_doubled(x: Value) -> Value:
    """1 + erf(x / sqrt(2))."""
    if x.dtype is not f32:
        return 1.0 + math.erf(x * 0.5**0.5)
    square = clamp(x * x, None, _ERF_LIMIT**2)
    quotient = x * polynomial(square, _ERF_TOP) / polynomial(square, _ERF_BOTTOM)
    far = absolute(x) > _ERF_LIMIT
    return 1.0 + select(far, copy_sign(x.like(1.0), x), quotient)
