"""The remainder of a division of floats, exactly."""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    Value,
    absolute,
    any_lane,
    clamp,
    convert,
    copy_sign,
    fma,
    select,
    trunc,
)
from afterglow.backends.cpu.llvm.emitter.arithmetic import fuses
from afterglow.backends.cpu.llvm.math.double_word import two_product
from afterglow.backends.cpu.llvm.math.float_encoding import scale, split_exponent
from afterglow.types.dtype import f32, f64

INFINITY, NAN = float("inf"), float("nan")

_STEP_BITS = 52
"""How many bits of a quotient of f64 are found at once: as many as are exact."""


def fmod(lhs: Value, rhs: Value) -> Value:
    """C's fmod, by long division; of f32 in f64, where nothing is too large or too small."""
    if lhs.dtype is f32:
        return convert(fmod(convert(lhs, f64), convert(rhs, f64)), f32)
    code, size, divisor = lhs.code, absolute(lhs), absolute(rhs)
    assert isinstance(code, Emitter)
    defined = (size < INFINITY) & (divisor > 0.0)
    last = split_exponent(divisor)[1]

    def divides(rest: list[Value]) -> Value:
        return any_lane(rest[0] >= divisor)

    def step(state: list[Value]) -> list[Value]:
        (rest,) = state
        places = clamp(split_exponent(rest)[1] - last - _STEP_BITS, 0, None)
        unit = scale(divisor, places)
        left = _less_product(rest, trunc(rest / unit), unit)
        left = select(left < 0.0, left + unit, left)
        return [select(rest >= divisor, left, rest)]

    (rest,) = code.iterate([select(defined, size, 0.0)], step, while_=divides)
    return copy_sign(select(defined, rest, NAN), lhs)


def _less_product(x: Value, count: Value, unit: Value) -> Value:
    """x - count * unit, where that is a float."""
    if fuses(x):
        return fma(-count, unit, x)
    product = two_product(count, unit)
    return (x - product.high) - product.low
