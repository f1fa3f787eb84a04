"""Mathematical functions of f32 and f64 values of any number of lanes, without any library.

Each is right to within 2 units in the last place, and at the edges: zeros of both signs,
infinities, NaN, subnormal and huge numbers. docs/math.md says how far each is off.
"""

from afterglow.backends.cpu.llvm.math.error_function import erf
from afterglow.backends.cpu.llvm.math.exponential import exp, exp2, exp_down, expm1, sigmoid
from afterglow.backends.cpu.llvm.math.hyperbolic import acosh, asinh, atanh, cosh, sinh, tanh
from afterglow.backends.cpu.llvm.math.inverse_trigonometric import acos, asin, atan, atan2
from afterglow.backends.cpu.llvm.math.logarithm import log, log1p, log2, log10
from afterglow.backends.cpu.llvm.math.power import pow, rsqrt
from afterglow.backends.cpu.llvm.math.trigonometric import cos, sin, tan

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cos",
    "cosh",
    "erf",
    "exp",
    "exp2",
    "exp_down",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "pow",
    "rsqrt",
    "sigmoid",
    "sin",
    "sinh",
    "tan",
    "tanh",
]
