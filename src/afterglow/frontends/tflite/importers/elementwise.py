"""TFLite's element-wise ops."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.tflite.importers.activation import activated
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import tflite_op
from afterglow.graph import Op, Value
from afterglow.ops import elementwise as e
from afterglow.ops import functions as f
from afterglow.ops.conversion import Cast
from afterglow.ops.movement import Reshape
from afterglow.ops.power import Pow
from afterglow.ops.reduction import ReduceSum
from afterglow.support.errors import ModelError
from afterglow.types.dtype import f64

_UNARY: dict[str, Callable[[], Op]] = {
    "ABS": e.Abs,
    "CEIL": e.Ceil,
    "COS": f.Cos,
    "EXP": f.Exp,
    "FLOOR": e.Floor,
    "LOG": f.Log,
    "LOGICAL_NOT": e.Not,
    "NEG": e.Neg,
    "ROUND": e.Round,
    "SIGN": e.Sign,
    "SIN": f.Sin,
    "SQRT": f.Sqrt,
    "STABLEHLO_ABS": e.Abs,
    "STABLEHLO_COSINE": f.Cos,
    "STABLEHLO_EXPONENTIAL": f.Exp,
    "STABLEHLO_FLOOR": e.Floor,
    "STABLEHLO_LOG": f.Log,
    "STABLEHLO_NEGATE": e.Neg,
    "STABLEHLO_TANH": f.Tanh,
}
_FUSED: dict[str, Callable[[], Op]] = {"ADD": e.Add, "SUB": e.Sub, "MUL": e.Mul, "DIV": e.Div}
_BINARY: dict[str, Callable[[], Op]] = {
    "BITWISE_XOR": e.Xor,
    "EQUAL": e.Equal,
    "FLOOR_MOD": e.Mod,
    "LESS": e.Less,
    "LESS_EQUAL": e.LessEqual,
    "LOGICAL_AND": e.And,
    "LOGICAL_OR": e.Or,
    "MAXIMUM": e.Max,
    "MINIMUM": e.Min,
    "POW": Pow,
    "RIGHT_SHIFT": e.ShiftRight,
    "STABLEHLO_ADD": e.Add,
    "STABLEHLO_AND": e.And,
    "STABLEHLO_DIVIDE": e.Div,
    "STABLEHLO_MAXIMUM": e.Max,
    "STABLEHLO_MINIMUM": e.Min,
    "STABLEHLO_MULTIPLY": e.Mul,
    "STABLEHLO_OR": e.Or,
    "STABLEHLO_POWER": Pow,
    "STABLEHLO_SUBTRACT": e.Sub,
}
_SWAPPED: dict[str, Callable[[], Op]] = {"GREATER": e.Less, "GREATER_EQUAL": e.LessEqual}


@tflite_op(*_UNARY)
def unary(n: TfliteNode) -> Value:
    """One operand, no options."""
    return n.emit(_UNARY[n.proto.op_type](), n[0])


@tflite_op(*_BINARY)
def binary(n: TfliteNode) -> Value:
    """Two operands, broadcast."""
    return n.emit(_BINARY[n.proto.op_type](), n[0], n[1])


@tflite_op(*_FUSED)
def arithmetic(n: TfliteNode) -> Value:
    """Two operands, broadcast; an activation function may be fused."""
    return activated(n, n.emit(_FUSED[n.proto.op_type](), n[0], n[1]))


@tflite_op(*_SWAPPED)
def swapped(n: TfliteNode) -> Value:
    """a > b is b < a."""
    return n.emit(_SWAPPED[n.proto.op_type](), n[1], n[0])


@tflite_op("NOT_EQUAL")
def not_equal(n: TfliteNode) -> Value:
    """Whether two are not equal."""
    return n.emit(e.Not(), n.emit(e.Equal(), n[0], n[1]))


@tflite_op("RSQRT", "STABLEHLO_RSQRT")
def rsqrt(n: TfliteNode) -> Value:
    """1 / sqrt(x)."""
    return n.emit(f.Reciprocal(), n.emit(f.Sqrt(), n[0]))


@tflite_op("STABLEHLO_LOGISTIC")
def logistic(n: TfliteNode) -> Value:
    """1 / (1 + exp(-x))."""
    one = n.full(1, n[0].type.dtype)
    negated = n.emit(f.Exp(), n.emit(e.Neg(), n[0]))
    return n.emit(f.Reciprocal(), n.emit(e.Add(), one, negated))


@tflite_op("SQUARE")
def square(n: TfliteNode) -> Value:
    """x x."""
    return n.emit(e.Mul(), n[0], n[0])


@tflite_op("SQUARED_DIFFERENCE")
def squared_difference(n: TfliteNode) -> Value:
    """(x - y)²."""
    difference = n.emit(e.Sub(), n[0], n[1])
    return n.emit(e.Mul(), difference, difference)


@tflite_op("FLOOR_DIV")
def floor_div(n: TfliteNode) -> Value:
    """The quotient, rounded down; where an integer is divided by 0 it is 0."""
    x, y = n[0], n[1]
    if x.type.dtype.is_float:
        return n.emit(e.Floor(), n.emit(e.Div(), x, y))
    rest = n.emit(e.Mod(), x, y)
    return n.emit(e.Div(), n.emit(e.Sub(), x, rest), y)


@tflite_op("ADD_N")
def add_n(n: TfliteNode) -> Value:
    """The sum of any number of operands."""
    total, rest = n[0], n.values()[1:]
    for value in rest:
        total = n.emit(e.Add(), total, value)
    return total


@tflite_op("SELECT_V2", "STABLEHLO_SELECT", moves=True)
def select_v2(n: TfliteNode) -> Value:
    """One of two by a condition; all broadcast."""
    return n.emit(e.Where(), n[0], n[1], n[2])


@tflite_op("SELECT", moves=True)
def select(n: TfliteNode) -> Value:
    """One of two by a condition, which may choose whole slices along the first axis."""
    condition, then = n[0], n[1]
    if condition.type.rank == 1 and then.type.rank > 1:
        shape = (*condition.type.shape, *(1 for _ in then.type.shape[1:]))
        condition = n.emit(Reshape(shape), condition)
    return n.emit(e.Where(), condition, then, n[2])


@tflite_op("ATAN2")
def atan2(n: TfliteNode) -> Value:
    """The angle of the point (x, y), of which y is the first operand."""
    return angle_of(n, n[0], n[1])


def angle_of(n: TfliteNode, y: Value, x: Value) -> Value:
    """The angle of the point (x, y), from -pi to pi."""
    zero = n.full(0, x.type.dtype)
    half, whole = n.full(np.pi / 2, x.type.dtype), n.full(np.pi, x.type.dtype)
    angle = n.emit(f.Atan(), n.emit(e.Div(), y, x))
    is_down, is_left = _is_negative(n, y), _is_negative(n, x)
    turn = n.emit(e.Where(), is_down, n.emit(e.Neg(), whole), whole)
    behind = n.emit(e.Where(), is_left, n.emit(e.Add(), angle, turn), angle)
    upright = n.emit(e.Where(), is_down, n.emit(e.Neg(), half), half)
    found = n.emit(e.Where(), n.emit(e.Equal(), x, zero), upright, behind)
    flat = n.emit(e.Where(), is_left, turn, y)
    return n.emit(e.Where(), n.emit(e.Equal(), y, zero), flat, found)


def _is_negative(n: TfliteNode, x: Value) -> Value:
    """Whether the sign bit is set: that of -0 is."""
    inverse = n.emit(f.Reciprocal(), x)
    zero = n.full(0, x.type.dtype)
    is_zero = n.emit(e.Equal(), x, zero)
    return n.emit(e.Less(), n.emit(e.Where(), is_zero, inverse, x), zero)


@tflite_op("BITCAST", moves=True)
def bitcast(n: TfliteNode) -> Value:
    """The same bits as elements of another type of the same width."""
    x, dtype = n[0], n.result_type()
    if x.type.dtype.bits == dtype.bits:
        return n.emit(e.BitCast(dtype), x)
    raise n.fail(f"bits of {x.type.dtype} as those of {dtype}, of another width, are not supported")


@tflite_op("FAKE_QUANT")
def fake_quant(n: TfliteNode) -> Value:
    """x rounded to one of the steps of a range, which is moved so that 0 is a step."""
    x = n[0]
    low, high, bits = n.real("min"), n.real("max"), n.count("num_bits", 8)
    if not 2 <= bits <= 16:
        raise ModelError(f"num_bits is {bits}, it must be from 2 to 16")
    if not (math.isfinite(low) and math.isfinite(high) and low < high and x.type.dtype.is_float):
        raise ModelError(f"{x.type} cannot be quantized from {low} to {high}")
    first, last = int(n.flag("narrow_range")), 2**bits - 1
    scale = np.float32((high - low) / (last - first))
    point = first - low / float(scale) if scale and np.isfinite(scale) else 0.0
    zero = min(max(int(np.floor(point + 0.5)), first), last)
    least, most = (float((step - zero) * scale) for step in (first, last))
    clipped = n.emit(e.Min(), n.emit(e.Max(), x, n.full(least, x.type.dtype)), _like(n, x, most))
    steps = n.emit(e.Div(), n.emit(e.Sub(), clipped, _like(n, x, least)), _like(n, x, float(scale)))
    rounded = n.emit(e.Floor(), n.emit(e.Add(), steps, _like(n, x, 0.5)))
    return n.emit(e.Add(), n.emit(e.Mul(), rounded, _like(n, x, float(scale))), _like(n, x, least))


def _like(n: TfliteNode, x: Value, number: float) -> Value:
    return n.full(number, x.type.dtype)


@tflite_op("BUCKETIZE")
def bucketize(n: TfliteNode) -> Value:
    """How many boundaries, which are in order, are not above each element."""
    x = as_dtype(n, n[0], f64)
    bounds = np.array(n.attribute("boundaries", ()), np.float32).astype(np.float64)
    passed = n.emit(e.LessEqual(), n.constant(bounds), n.emit(Reshape((*x.type.shape, 1)), x))
    return n.emit(ReduceSum((x.type.rank,), keepdims=False), n.emit(Cast(n.result_type()), passed))
