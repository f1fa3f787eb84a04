"""Rounding of floats to whole numbers that stay floats."""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter.arithmetic import (
    absolute,
    copy_sign,
    intrinsic,
    reinterpret,
    select,
)
from afterglow.backends.cpu.llvm.emitter.value import Value
from afterglow.types.dtype import f64, i32


def rint(x: Value) -> Value:
    """The nearest whole number, the even one of two."""
    if _is_instruction(x):
        return intrinsic("roundeven", x)
    # Beside 2^52 (2^23) there is no room for a fraction: adding it rounds.
    huge = 2.0**52 if x.dtype is f64 else 2.0**23
    size = absolute(x)
    rounded = (size + huge) - huge
    return copy_sign(select(size < huge, rounded, size), x)


def nearest_integer(x: Value) -> Value:
    """The nearest i32, the even one of two; what is beyond them becomes the last: of one f32.

    Only where the target has a `rounding_conversion`.
    """
    return reinterpret(x.derive(f"call float @llvm.arm.vcvtr.f32({x.typed})"), i32)


def floor(x: Value) -> Value:
    """The nearest whole number that is not above."""
    if _is_instruction(x):
        return intrinsic("floor", x)
    near = rint(x)
    return select(near > x, near - 1.0, near)


def ceil(x: Value) -> Value:
    """The nearest whole number that is not below."""
    if _is_instruction(x):
        return intrinsic("ceil", x)
    near = rint(x)
    return copy_sign(select(near < x, near + 1.0, near), x)


def trunc(x: Value) -> Value:
    """The nearest whole number towards zero."""
    if _is_instruction(x):
        return intrinsic("trunc", x)
    return copy_sign(floor(absolute(x)), x)


def round_half_away(x: Value) -> Value:
    """The nearest whole number, of two the one farther from zero, as C's `round`."""
    whole = trunc(x)
    return select(absolute(x - whole) >= 0.5, whole + copy_sign(x.like(1.0), x), whole)


def _is_instruction(x: Value) -> bool:
    """Whether the machine rounds values of this type, rather than a library that may be absent."""
    target = x.code.target
    return target.rounding and (target.double_precision or x.dtype is not f64)
