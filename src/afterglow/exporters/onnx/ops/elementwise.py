"""Arithmetic, comparisons and functions, element by element."""

from __future__ import annotations

from afterglow.exporters.onnx.node import NodeWriter
from afterglow.exporters.onnx.registry import exports
from afterglow.graph import Op
from afterglow.ops import elementwise as e
from afterglow.ops import functions as f
from afterglow.ops.power import Pow

SAME: dict[type[Op], str] = {
    e.Add: "Add",
    e.Sub: "Sub",
    e.Mul: "Mul",
    e.Div: "Div",
    e.Max: "Max",
    e.Min: "Min",
    e.Equal: "Equal",
    e.Less: "Less",
    e.LessEqual: "LessOrEqual",
    e.Not: "Not",
    e.Neg: "Neg",
    e.Abs: "Abs",
    e.Sign: "Sign",
    e.Floor: "Floor",
    e.Ceil: "Ceil",
    e.Round: "Round",
    e.IsNaN: "IsNaN",
    e.Where: "Where",
    f.Exp: "Exp",
    f.Log: "Log",
    f.Sqrt: "Sqrt",
    f.Reciprocal: "Reciprocal",
    f.Sin: "Sin",
    f.Cos: "Cos",
    f.Tan: "Tan",
    f.Asin: "Asin",
    f.Acos: "Acos",
    f.Atan: "Atan",
    f.Sinh: "Sinh",
    f.Cosh: "Cosh",
    f.Tanh: "Tanh",
    f.Asinh: "Asinh",
    f.Acosh: "Acosh",
    f.Atanh: "Atanh",
    f.Erf: "Erf",
    Pow: "Pow",
}
"""Ops that ONNX has, too, with nothing to say about them."""


@exports(*SAME)
def same(n: NodeWriter) -> str:
    """The op of ONNX that means the same."""
    return n.emit(SAME[type(n.op)], *n.operands)


@exports(e.And, e.Or, e.Xor)
def logic(n: NodeWriter) -> str:
    """Of truth values, or bit by bit."""
    word = type(n.op).__name__
    bits = n.type(0).dtype.is_integer
    return n.emit(f"Bitwise{word}" if bits else word, *n.operands)


@exports(e.ShiftLeft, e.ShiftRight)
def shift(n: NodeWriter) -> str:
    """Bits moved."""
    direction = "LEFT" if isinstance(n.op, e.ShiftLeft) else "RIGHT"
    return n.emit("BitShift", *n.operands, direction=direction)


@exports(e.Mod)
def modulo(n: NodeWriter) -> str:
    """Of floats, ONNX has only the truncated one; the other is x - floor(x / y) y."""
    x, y = n.operands
    if not n.type(0).dtype.is_float or n.op.truncated:
        return n.emit("Mod", x, y, fmod=int(n.op.truncated))
    return n.emit("Sub", x, n.emit("Mul", n.emit("Floor", n.emit("Div", x, y)), y))


@exports(e.IsInf)
def is_infinite(n: NodeWriter) -> str:
    """Either sign, or both."""
    signs = {"detect_positive": int(n.op.positive), "detect_negative": int(n.op.negative)}
    return n.emit("IsInf", *n.operands, **signs)


@exports(f.Expm1)
def exp_less_one(n: NodeWriter) -> str:
    """exp(x) - 1: near 0, it loses digits."""
    return n.emit("Sub", n.emit("Exp", *n.operands), n.scalar(1))


@exports(f.Log1p)
def log_of_one_more(n: NodeWriter) -> str:
    """log(1 + x): near 0, it loses digits."""
    return n.emit("Log", n.emit("Add", *n.operands, n.scalar(1)))
