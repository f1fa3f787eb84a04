"""ONNX's element-wise ops."""

from __future__ import annotations

from afterglow.frontends.onnx.context import NodeContext
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Op, Value
from afterglow.ops import elementwise as e
from afterglow.ops import functions as f

_UNARY: dict[str, type[Op]] = {
    "Neg": e.Neg,
    "Abs": e.Abs,
    "Sign": e.Sign,
    "Floor": e.Floor,
    "Ceil": e.Ceil,
    "Round": e.Round,
    "Not": e.Not,
    "BitwiseNot": e.Not,
    "IsNaN": e.IsNaN,
    "Exp": f.Exp,
    "Log": f.Log,
    "Sqrt": f.Sqrt,
    "Reciprocal": f.Reciprocal,
    "Sin": f.Sin,
    "Cos": f.Cos,
    "Tan": f.Tan,
    "Asin": f.Asin,
    "Acos": f.Acos,
    "Atan": f.Atan,
    "Sinh": f.Sinh,
    "Cosh": f.Cosh,
    "Tanh": f.Tanh,
    "Asinh": f.Asinh,
    "Acosh": f.Acosh,
    "Atanh": f.Atanh,
    "Erf": f.Erf,
}
_BINARY: dict[str, type[Op]] = {
    "Add": e.Add,
    "Sub": e.Sub,
    "Mul": e.Mul,
    "Div": e.Div,
    "Equal": e.Equal,
    "Less": e.Less,
    "LessOrEqual": e.LessEqual,
    "And": e.And,
    "Or": e.Or,
    "Xor": e.Xor,
    "BitwiseAnd": e.And,
    "BitwiseOr": e.Or,
    "BitwiseXor": e.Xor,
}
_SWAPPED: dict[str, type[Op]] = {"Greater": e.Less, "GreaterOrEqual": e.LessEqual}


@onnx_op(*_UNARY)
def unary(n: NodeContext) -> Value:
    """One operand, no attributes."""
    return n.emit(_UNARY[n.proto.op_type](), n[0])


@onnx_op(*_BINARY)
def binary(n: NodeContext) -> Value:
    """Two operands, broadcast."""
    return n.emit(_BINARY[n.proto.op_type](), n[0], n[1])


@onnx_op(*_SWAPPED)
def swapped(n: NodeContext) -> Value:
    """a > b is b < a."""
    return n.emit(_SWAPPED[n.proto.op_type](), n[1], n[0])
