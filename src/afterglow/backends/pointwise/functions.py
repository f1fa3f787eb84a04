"""Named functions of one real number, which every code generator has."""

from __future__ import annotations

from afterglow.backends.pointwise.table import expression
from afterglow.backends.pointwise.value import Value
from afterglow.backends.pointwise.vocabulary import call
from afterglow.graph import Op
from afterglow.ops import functions as ops

_FUNCTIONS: dict[type[Op], str] = {
    ops.Exp: "exp",
    ops.Expm1: "expm1",
    ops.Log: "log",
    ops.Log1p: "log1p",
    ops.Sqrt: "sqrt",
    ops.Sin: "sin",
    ops.Cos: "cos",
    ops.Tan: "tan",
    ops.Asin: "asin",
    ops.Acos: "acos",
    ops.Atan: "atan",
    ops.Sinh: "sinh",
    ops.Cosh: "cosh",
    ops.Tanh: "tanh",
    ops.Asinh: "asinh",
    ops.Acosh: "acosh",
    ops.Atanh: "atanh",
    ops.Erf: "erf",
}


@expression(*_FUNCTIONS)
def function(op: Op, x: Value) -> Value:
    """The function of that name."""
    return call(_FUNCTIONS[type(op)], x)


@expression(ops.Reciprocal)
def reciprocal(op: ops.Reciprocal, x: Value) -> Value:
    """1 / x."""
    return 1.0 / x
