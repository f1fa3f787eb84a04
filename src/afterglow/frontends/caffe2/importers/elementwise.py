"""Caffe2's element-wise operators."""

from __future__ import annotations

from functools import reduce

from afterglow.frontends.caffe2.registry import Caffe2Node, caffe2_op
from afterglow.frontends.common.conversion import as_dtype
from afterglow.graph import Op, Value
from afterglow.ops import elementwise as e
from afterglow.ops import functions as f
from afterglow.ops.conversion import Cast
from afterglow.ops.loss import BinaryCrossEntropy, LossReduction
from afterglow.ops.movement import Reshape
from afterglow.ops.power import Pow
from afterglow.ops.reduction import ReduceMean
from afterglow.support.errors import ModelError
from afterglow.types import DType
from afterglow.types import dtype as d

_UNARY: dict[str, Op] = {
    "Abs": e.Abs(),
    "Negative": e.Neg(),
    "Sign": e.Sign(),
    "Floor": e.Floor(),
    "Ceil": e.Ceil(),
    "Not": e.Not(),
    "IsNanOp": e.IsNaN(),
    "Exp": f.Exp(),
    "Log": f.Log(),
    "Log1p": f.Log1p(),
    "Sqrt": f.Sqrt(),
    "Reciprocal": f.Reciprocal(),
    "Sin": f.Sin(),
    "Cos": f.Cos(),
    "Tan": f.Tan(),
    "Asin": f.Asin(),
    "Acos": f.Acos(),
    "Atan": f.Atan(),
    "Sinh": f.Sinh(),
    "Cosh": f.Cosh(),
    "Erf": f.Erf(),
}
_BINARY: dict[str, Op] = {
    "Add": e.Add(),
    "Sub": e.Sub(),
    "Mul": e.Mul(),
    "Div": e.Div(),
    "EQ": e.Equal(),
    "LT": e.Less(),
    "LE": e.LessEqual(),
    "And": e.And(),
    "Or": e.Or(),
    "Xor": e.Xor(),
    "BitwiseAnd": e.And(),
    "BitwiseOr": e.Or(),
    "BitwiseXor": e.Xor(),
}
_SWAPPED: dict[str, Op] = {"GT": e.Less(), "GE": e.LessEqual()}
_VARIADIC: dict[str, Op] = {"Sum": e.Add(), "Max": e.Max(), "Min": e.Min()}
_LEAST = 1e-6
_TYPE_NAMES: dict[str, DType] = {
    "FLOAT": d.f32,
    "INT32": d.i32,
    "BYTE": d.u8,
    "BOOL": d.boolean,
    "UINT8": d.u8,
    "INT8": d.i8,
    "UINT16": d.u16,
    "INT16": d.i16,
    "INT64": d.i64,
    "FLOAT16": d.f16,
    "DOUBLE": d.f64,
}


@caffe2_op(*_UNARY)
def unary(n: Caffe2Node) -> Value:
    """Functions of one number."""
    return n.emit(_UNARY[n.proto.op_type], n[0])


def aligned(n: Caffe2Node) -> tuple[Value, Value]:
    """Both operands; with `broadcast`, the axes of y are those of x from `axis` on."""
    x, y = n[0], n[1]
    if not n.flag("broadcast") or not n.has("axis") or y.type.rank >= x.type.rank:
        return x, y
    axis = n.integer("axis")
    if axis == -1:
        return x, y
    behind = x.type.rank - axis - y.type.rank
    if axis < 0 or behind < 0:
        raise ModelError(f"attribute 'axis' is {axis}, for {x.type} and {y.type}")
    return x, n.emit(Reshape((*y.type.shape, *(1,) * behind)), y)


@caffe2_op(*_BINARY)
def binary(n: Caffe2Node) -> Value:
    """Functions of two numbers."""
    return n.emit(_BINARY[n.proto.op_type], *aligned(n))


@caffe2_op(*_SWAPPED)
def swapped(n: Caffe2Node) -> Value:
    """Comparisons the other way round."""
    x, y = aligned(n)
    return n.emit(_SWAPPED[n.proto.op_type], y, x)


@caffe2_op("NE")
def not_equal(n: Caffe2Node) -> Value:
    """Whether two numbers differ."""
    return n.emit(e.Not(), n.emit(e.Equal(), *aligned(n)))


@caffe2_op(*_VARIADIC)
def variadic(n: Caffe2Node) -> Value:
    """The sum, the largest or the smallest of any number of operands."""
    op = _VARIADIC.get(n.proto.op_type, e.Add())
    return reduce(lambda x, y: n.emit(op, x, y), _operands(n))


@caffe2_op("Mean")
def mean(n: Caffe2Node) -> Value:
    """The mean of any number of operands."""
    total = reduce(lambda x, y: n.emit(e.Add(), x, y), _operands(n))
    return n.emit(e.Div(), total, e.scalar(n.builder, len(n), total))


def _operands(n: Caffe2Node) -> list[Value]:
    if not len(n):
        raise ModelError("it has no inputs")
    return n.values()


@caffe2_op("Sqr")
def sqr(n: Caffe2Node) -> Value:
    """x²."""
    return n.emit(e.Mul(), n[0], n[0])


@caffe2_op("Cube")
def cube(n: Caffe2Node) -> Value:
    """x³."""
    return n.emit(e.Mul(), n.emit(e.Mul(), n[0], n[0]), n[0])


@caffe2_op("Rsqrt")
def rsqrt(n: Caffe2Node) -> Value:
    """1 / sqrt(x)."""
    return n.emit(f.Reciprocal(), n.emit(f.Sqrt(), n[0]))


@caffe2_op("Pow")
def power(n: Caffe2Node) -> Value:
    """The exponent is an argument, or the second operand."""
    if len(n) > 1:
        return n.emit(Pow(), *aligned(n))
    return n.emit(Pow(), n[0], e.scalar(n.builder, n.number("exponent"), n[0]))


@caffe2_op("Mod")
def mod(n: Caffe2Node) -> Value:
    """The remainder, with the sign of x unless it follows the divisor."""
    divisor = e.scalar(n.builder, n.integer("divisor"), n[0])
    return n.emit(e.Mod(not n.flag("sign_follow_divisor")), n[0], divisor)


@caffe2_op("Scale")
def scale(n: Caffe2Node) -> Value:
    """x times a number."""
    return n.emit(e.Mul(), n[0], e.scalar(n.builder, n.number("scale", 1.0), n[0]))


@caffe2_op("ReplaceNaN")
def replace_nan(n: Caffe2Node) -> Value:
    """A value in the place of what is not a number."""
    value = e.scalar(n.builder, n.number("value", 0.0), n[0])
    return n.emit(e.Where(), n.emit(e.IsNaN(), n[0]), value, n[0])


@caffe2_op("Where")
def where(n: Caffe2Node) -> Value:
    """The condition is one for each element, or, on rows, one for each row."""
    condition, x = n[0], n[1]
    if n.flag("broadcast_on_rows"):
        condition = n.emit(Reshape((*condition.type.shape, *(1,) * (x.type.rank - 1))), condition)
    return n.emit(e.Where(), condition, x, n[2])


@caffe2_op("ElementwiseLinear")
def elementwise_linear(n: Caffe2Node) -> Value:
    """x w + b, with one w and b for each index of the axes from `axis` on, or of that axis."""
    x, axis = n[0], n.axis(n[0])
    shape = x.type.shape[axis:]
    if n[1].type.size == shape[0]:
        shape = (shape[0], *(1,) * (len(shape) - 1))
    weight, bias = (n.emit(Reshape(shape), n[index]) for index in (1, 2))
    return n.emit(e.Add(), n.emit(e.Mul(), x, weight), bias)


@caffe2_op("Cast")
def cast(n: Caffe2Node) -> Value:
    """The element type is a number or a name."""
    if isinstance(n.attribute("to"), str):
        return as_dtype(
            n, n[0], n.choice("to", {k.lower(): v for k, v in _TYPE_NAMES.items()} | _TYPE_NAMES)
        )
    return as_dtype(n, n[0], n.dtype("to"))


@caffe2_op("HalfToFloat")
def half_to_float(n: Caffe2Node) -> Value:
    """As f32."""
    return n.emit(Cast(d.f32), n[0])


@caffe2_op("FloatToHalf")
def float_to_half(n: Caffe2Node) -> Value:
    """As f16."""
    return n.emit(Cast(d.f16), n[0])


@caffe2_op("BatchBoxCox")
def box_cox(n: Caffe2Node) -> Value:
    """Of max(x + b, 1e-6), for each column: its logarithm where a is 0, else (it ** a - 1) / a."""
    x, a = n.emit(e.Add(), n[0], n[2]), n[1]
    x = n.emit(e.Max(), x, e.scalar(n.builder, _LEAST, x))
    zero, one = e.scalar(n.builder, 0, a), e.scalar(n.builder, 1, a)
    is_zero = n.emit(e.Equal(), a, zero)
    divisor = n.emit(e.Where(), is_zero, one, a)
    power = n.emit(e.Div(), n.emit(e.Sub(), n.emit(Pow(), x, a), one), divisor)
    return n.emit(e.Where(), is_zero, n.emit(f.Log(), x), power)


@caffe2_op("SigmoidCrossEntropyWithLogits")
def sigmoid_cross_entropy(n: Caffe2Node) -> Value:
    """The mean over the last axis of the cross entropy of logits and targets."""
    if n.flag("log_D_trick") or n.flag("unjoined_lr_loss"):
        raise n.fail("only the plain cross entropy is supported")
    if not n[0].type.rank:
        raise ModelError(f"logits must have 1 or more axes, they are {n[0].type}")
    loss = n.emit(BinaryCrossEntropy(LossReduction.NONE), n[0], n[1])
    return n.emit(ReduceMean((n[0].type.rank - 1,), False), loss)
