"""ONNX's element-wise ops."""

from __future__ import annotations

import numpy as np

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Op, Value
from afterglow.ops import elementwise as e
from afterglow.ops import functions as f
from afterglow.ops.movement import Reshape
from afterglow.ops.power import Pow
from afterglow.ops.rules import normal_axis
from afterglow.types import DType
from afterglow.types.dtype import f64

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
_VARIADIC: dict[str, type[Op]] = {"Min": e.Min, "Max": e.Max, "Sum": e.Add, "Mean": e.Add}
_SHIFTS: dict[str, type[Op]] = {"LEFT": e.ShiftLeft, "RIGHT": e.ShiftRight}
_SWAPPED: dict[str, type[Op]] = {"Greater": e.Less, "GreaterOrEqual": e.LessEqual}


@onnx_op(*_UNARY)
def unary(n: NodeContext) -> Value:
    """One operand, no attributes."""
    return n.emit(_UNARY[n.proto.op_type](), n[0])


@onnx_op(*_BINARY)
def binary(n: NodeContext) -> Value:
    """Two operands, broadcast."""
    return n.emit(_BINARY[n.proto.op_type](), *_pair(n))


def _pair(n: NodeContext) -> tuple[Value, Value]:
    """Both operands; before version 7, `axis` may say where the axes of the second one begin."""
    lhs, rhs = n[0], n[1]
    if n.opset >= 7 or not n.has("axis"):
        return lhs, rhs
    behind = lhs.type.rank - normal_axis(n.integer("axis"), lhs.type, "lhs") - rhs.type.rank
    return lhs, n.emit(Reshape(rhs.type.shape + (1,) * behind), rhs) if behind > 0 else rhs


@onnx_op(*_SWAPPED)
def swapped(n: NodeContext) -> Value:
    """a > b is b < a."""
    lhs, rhs = _pair(n)
    return n.emit(_SWAPPED[n.proto.op_type](), rhs, lhs)


@onnx_op(*_VARIADIC)
def variadic(n: NodeContext) -> Value:
    """Any number of operands, two at a time; a mean is divided by how many there are."""
    op = _VARIADIC[n.proto.op_type]()
    result, rest = n[0], n.values()[1:]
    for value in rest:
        result = n.emit(op, result, value)
    if n.proto.op_type != "Mean":
        return result
    return n.emit(e.Div(), result, n.constant(np.array(len(n), result.type.dtype.numpy)))


@onnx_op("Mod")
def mod(n: NodeContext) -> Value:
    """The sign of the divisor, or that of the dividend."""
    return n.emit(e.Mod(truncated=bool(n.integer("fmod", 0))), n[0], n[1])


@onnx_op("Pow")
def power(n: NodeContext) -> Value:
    """The result is of the base's type, whatever the exponent's: compute in what holds both."""
    base, exponent = _pair(n)
    common = _common_dtype(base.type.dtype, exponent.type.dtype)
    result = n.emit(Pow(), as_dtype(n, base, common), as_dtype(n, exponent, common))
    return as_dtype(n, result, base.type.dtype)


def _common_dtype(base: DType, exponent: DType) -> DType:
    if base.is_float and exponent.is_float:
        return exponent if exponent.bits > base.bits else base
    return f64 if exponent.is_float else base


@onnx_op("Where")
def where(n: NodeContext) -> Value:
    """One of two by a condition."""
    return n.emit(e.Where(), n[0], n[1], n[2])


@onnx_op("BitShift")
def bit_shift(n: NodeContext) -> Value:
    """By its direction."""
    return n.emit(n.choice("direction", _SHIFTS)(), n[0], n[1])


@onnx_op("IsInf")
def is_inf(n: NodeContext) -> Value:
    """Either sign can be left out."""
    positive, negative = n.integer("detect_positive", 1), n.integer("detect_negative", 1)
    return n.emit(e.IsInf(positive=bool(positive), negative=bool(negative)), n[0])


@onnx_op("BitCast")
def bit_cast(n: NodeContext) -> Value:
    """The same bits."""
    return n.emit(e.BitCast(n.dtype("to")), n[0])
