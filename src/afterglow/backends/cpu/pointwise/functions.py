"""Named functions of one real number, which the vector math has."""

from __future__ import annotations

from collections.abc import Callable

from afterglow.backends.cpu.llvm import math
from afterglow.backends.cpu.llvm.emitter import Value, sqrt
from afterglow.backends.cpu.pointwise import fast
from afterglow.backends.cpu.pointwise.table import expression
from afterglow.graph import Op
from afterglow.ops import functions as ops


def _reciprocal(x: Value) -> Value:
    return 1.0 / x


_FUNCTIONS: dict[type[Op], Callable[[Value], Value]] = {
    ops.Exp: math.exp,
    ops.Expm1: math.expm1,
    ops.Log: math.log,
    ops.Log1p: math.log1p,
    ops.Sqrt: sqrt,
    ops.Reciprocal: _reciprocal,
    ops.Sin: math.sin,
    ops.Cos: math.cos,
    ops.Tan: math.tan,
    ops.Asin: math.asin,
    ops.Acos: math.acos,
    ops.Atan: math.atan,
    ops.Sinh: math.sinh,
    ops.Cosh: math.cosh,
    ops.Tanh: fast.tanh,
    ops.Asinh: math.asinh,
    ops.Acosh: math.acosh,
    ops.Atanh: math.atanh,
    ops.Erf: math.erf,
}


@expression(*_FUNCTIONS)
def function(op: Op, x: Value) -> Value:
    """The function of that name."""
    return _FUNCTIONS[type(op)](x)
