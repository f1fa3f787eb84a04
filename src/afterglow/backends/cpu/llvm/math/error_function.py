"""The error function."""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter import Value, absolute, clamp, copy_sign, fma, select
from afterglow.backends.cpu.llvm.math.coefficients import ERF, ERF_TAIL
from afterglow.backends.cpu.llvm.math.exponential import reduced
from afterglow.backends.cpu.llvm.math.float_encoding import power_of_two
from afterglow.backends.cpu.llvm.math.polynomial import polynomial
from afterglow.types.dtype import f32


def erf(x: Value) -> Value:
    """2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x."""
    size = absolute(x)
    square = size * size
    small = fma(size, polynomial(square, ERF[x.dtype]), size)
    bounded = clamp(size, None, 4.0 if x.dtype is f32 else 6.0)
    part = reduced(bounded * polynomial(bounded, ERF_TAIL[x.dtype]))
    complement = part.mantissa * power_of_two(part.exponent, x.dtype)
    return copy_sign(select(size < 1.0, small, 1.0 - complement), x)
