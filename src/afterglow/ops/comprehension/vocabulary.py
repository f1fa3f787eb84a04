"""The functions, operators and reductions of index notation, each by the ops that define it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from afterglow.graph import Op
from afterglow.ops.activation import (
    Elu,
    Gelu,
    HardSigmoid,
    HardSwish,
    LeakyRelu,
    Mish,
    Relu,
    Selu,
    Sigmoid,
    Softplus,
    Softsign,
    Swish,
)
from afterglow.ops.elementwise import (
    Abs,
    Add,
    And,
    Ceil,
    Div,
    Equal,
    Floor,
    Less,
    LessEqual,
    Max,
    Min,
    Mul,
    Neg,
    Not,
    Or,
    Round,
    Sign,
    Sub,
    Where,
)
from afterglow.ops.functions import (
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atan,
    Atanh,
    Cos,
    Cosh,
    Erf,
    Exp,
    Expm1,
    Log,
    Log1p,
    Reciprocal,
    Sin,
    Sinh,
    Sqrt,
    Tan,
    Tanh,
)
from afterglow.ops.power import Pow
from afterglow.ops.reduction import ReduceMax, ReduceMean, ReduceMin, ReduceProd, ReduceSum

ApplyOp: TypeAlias = Callable[..., Any]
"""Applies an op to types, arrays or values: what `apply_function` is asked for."""

_UNARY: dict[str, type[Op]] = {
    **{"abs": Abs, "acos": Acos, "acosh": Acosh, "asin": Asin, "asinh": Asinh},
    **{"atan": Atan, "atanh": Atanh, "ceil": Ceil, "cos": Cos, "cosh": Cosh},
    **{"elu": Elu, "erf": Erf, "exp": Exp, "expm1": Expm1, "floor": Floor},
    **{"gelu": Gelu, "hard_sigmoid": HardSigmoid, "hard_swish": HardSwish},
    **{"leaky_relu": LeakyRelu, "log": Log, "log1p": Log1p, "mish": Mish, "neg": Neg},
    **{"not": Not, "reciprocal": Reciprocal, "relu": Relu, "round": Round},
    **{"selu": Selu, "sigmoid": Sigmoid, "sign": Sign, "silu": Swish, "sin": Sin},
    **{"sinh": Sinh, "softplus": Softplus, "softsign": Softsign, "sqrt": Sqrt},
    **{"swish": Swish, "tan": Tan, "tanh": Tanh},
}
_BINARY: dict[str, type[Op]] = {
    **{"+": Add, "-": Sub, "*": Mul, "/": Div, "pow": Pow, "max": Max, "min": Min},
    **{"and": And, "or": Or, "<": Less, "<=": LessEqual, "==": Equal},
}
COMPARISONS = ("<=", ">=", "==", "!=", "<", ">")
"""Operators whose results are booleans."""
_SYMBOLS = {"+", "-", "*", "/", "and", "or", "not", "neg"}
ARITIES: dict[str, int] = {
    **{name: 1 for name in _UNARY if name not in _SYMBOLS},
    **{"max": 2, "min": 2, "pow": 2, "where": 3},
}
"""The functions that a text may call, with the number of their arguments."""
REDUCTIONS: dict[str, Callable[[tuple[int, ...]], Op]] = {
    "sum": lambda axes: ReduceSum(axes, keepdims=False),
    "prod": lambda axes: ReduceProd(axes, keepdims=False),
    "mean": lambda axes: ReduceMean(axes, keepdims=False),
    "min": lambda axes: ReduceMin(axes, keepdims=False),
    "max": lambda axes: ReduceMax(axes, keepdims=False),
}
"""The reductions, each as the op for some axes."""


def apply_function(name: str, apply: ApplyOp, *arguments: Any) -> Any:
    """What a function means: `apply` is called with an op and its operands, once or twice."""
    match name:
        case ">":
            return apply(Less(), *reversed(arguments))
        case ">=":
            return apply(LessEqual(), *reversed(arguments))
        case "!=":
            return apply(Not(), apply(Equal(), *arguments))
        case "where":
            return apply(Where(), *arguments)
    op = _UNARY.get(name) or _BINARY[name]
    return apply(op(), *arguments)
