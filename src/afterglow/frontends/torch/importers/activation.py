"""ATen's activation functions."""

from __future__ import annotations

from collections.abc import Callable

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.torch.node import TorchNode
from afterglow.frontends.torch.registry import aten
from afterglow.graph import Op, Value
from afterglow.ops import activation as a
from afterglow.ops import softmax as s
from afterglow.ops.arithmetic import Arithmetic
from afterglow.ops.elementwise import Div, Equal, Less, LessEqual, Min, Mul, Neg, Where, scalar
from afterglow.ops.movement import Reshape, slice_axis
from afterglow.ops.reduction import ReduceMax
from afterglow.ops.rules import normal_axis
from afterglow.types.dtype import f32

_PLAIN: dict[str, Callable[[], Op]] = {
    "relu.default": a.Relu,
    "sigmoid.default": a.Sigmoid,
    "special_expit.default": a.Sigmoid,
    "silu.default": a.Swish,
    "mish.default": a.Mish,
    "selu.default": a.Selu,
    "hardswish.default": a.HardSwish,
    "hardsigmoid.default": lambda: a.HardSigmoid(1 / 6, 0.5),
    "relu6.default": lambda: a.Clip(0.0, 6.0),
}
_WITH_NUMBER: dict[str, tuple[Callable[[float], Op], str]] = {
    "leaky_relu.default": (a.LeakyRelu, "negative_slope"),
    "celu.default": (a.Celu, "alpha"),
    "hardshrink.default": (lambda reach: a.Shrink(reach, 0.0), "lambd"),
    "softshrink.default": (lambda reach: a.Shrink(reach, reach), "lambd"),
}


def own_type(n: TorchNode, name: str = "self") -> Value:
    """A tensor argument as elements of the result's type: integers may give floats."""
    return as_dtype(n, n.value(name), n.result_type())


@aten(*_PLAIN)
def plain(n: TorchNode) -> Value:
    """No arguments but the tensor."""
    return n.emit(_PLAIN[n.proto.op_type](), own_type(n))


@aten(*_WITH_NUMBER)
def with_number(n: TorchNode) -> Value:
    """One number."""
    make, name = _WITH_NUMBER[n.proto.op_type]
    return n.emit(make(float(n.scalar(name))), own_type(n))


@aten("gelu.default")
def gelu(n: TorchNode) -> Value:
    """`approximate` is a word."""
    return n.emit(a.Gelu(n.argument("approximate") == "tanh"), n.value("self"))


@aten("elu.default")
def elu(n: TorchNode) -> Value:
    """scale (x, or alpha (exp(input_scale x) - 1) where it is not positive)."""
    x, alpha = n.value("self"), float(n.scalar("alpha"))
    scale, inner = float(n.scalar("scale")), float(n.scalar("input_scale"))
    t = Arithmetic(n.builder, x)
    if inner == 1:
        return _times(n, n.emit(a.Elu(alpha), x), scale)
    low = n.emit(a.Elu(alpha), t.mul(n.emit(Min(), x, t.value(0.0)), inner))
    return _times(n, n.emit(Where(), n.emit(Less(), t.value(0.0), x), x, low), scale)


def _times(n: TorchNode, x: Value, factor: float) -> Value:
    return x if factor == 1 else n.emit(Mul(), x, scalar(n.builder, factor, x))


@aten("hardtanh.default")
def hardtanh(n: TorchNode) -> Value:
    """Bounds, as they are given."""
    return n.emit(a.Clip(float(n.scalar("min_val")), float(n.scalar("max_val"))), n.value("self"))


@aten("softplus.default")
def softplus(n: TorchNode) -> Value:
    """log(1 + exp(beta x)) / beta, and x itself where beta x is above the threshold."""
    x, beta, limit = n.value("self"), float(n.scalar("beta")), float(n.scalar("threshold"))
    steep = _times(n, x, beta)
    soft = n.emit(a.Softplus(), steep)
    if beta != 1:
        soft = n.emit(Div(), soft, scalar(n.builder, beta, x))
    if limit >= 20 and x.type.dtype is f32:
        return soft  # from there on both are the same number
    return n.emit(Where(), n.emit(Less(), scalar(n.builder, limit, x), steep), x, soft)


@aten("threshold.default")
def threshold(n: TorchNode) -> Value:
    """x above a number, else a value."""
    x = n.value("self")
    limit, value = (scalar(n.builder, n.scalar(name), x) for name in ("threshold", "value"))
    return n.emit(Where(), n.emit(LessEqual(), x, limit), value, x)


@aten("prelu.default", "_prelu_kernel.default")
def prelu(n: TorchNode) -> Value:
    """A slope for all, or one for each channel: axis 1; the kernel's slope broadcasts."""
    x, slope = n.value("self"), n.value("weight")
    if n.proto.op_type == "prelu.default":
        shape = (slope.type.size, *(1,) * (x.type.rank - 2)) if slope.type.size > 1 else ()
        slope = n.emit(Reshape(shape if x.type.rank > 1 else slope.type.shape), slope)
    return n.emit(a.PRelu(), x, slope)


@aten("glu.default")
def glu(n: TorchNode) -> Value:
    """The first half times the sigmoid of the second."""
    x = n.value("self")
    axis = normal_axis(n.size("dim"), x.type)
    half = x.type.shape[axis] // 2
    first, second = (n.emit(slice_axis(x.type, axis, start, half), x) for start in (0, half))
    return n.emit(Mul(), first, n.emit(a.Sigmoid(), second))


@aten("log_sigmoid.default")
def log_sigmoid(n: TorchNode) -> Value:
    """-softplus(-x)."""
    return n.emit(Neg(), n.emit(a.Softplus(), n.emit(Neg(), n.value("self"))))


@aten("log_sigmoid_forward.default")
def log_sigmoid_forward(n: TorchNode) -> tuple[Value, None]:
    """Without the buffer that only gradients read."""
    return log_sigmoid(n), None


@aten("rrelu.default", "rrelu_with_noise_functional.default")
def rrelu(n: TorchNode) -> Value:
    """In inference, the mean slope."""
    if n.flag("training"):
        raise n.fail("random slopes are not supported", help="export the model in inference mode")
    slope = (float(n.scalar("lower")) + float(n.scalar("upper"))) / 2
    return n.emit(a.LeakyRelu(slope), n.value("self"))


_SOFTMAX = ("softmax.int", "_softmax.default", "special_softmax.default", "_safe_softmax.default")
_LOG_SOFTMAX = ("log_softmax.int", "_log_softmax.default", "special_log_softmax.default")


@aten(*_SOFTMAX, *_LOG_SOFTMAX)
def softmax(n: TorchNode) -> Value:
    """Along an axis, in the element type of the result; a number alone is 1."""
    x = own_type(n)
    make = s.LogSoftmax if n.proto.op_type in _LOG_SOFTMAX else s.Softmax
    if not x.type.rank:
        return n.emit(Reshape(()), n.emit(make(0), n.emit(Reshape((1,)), x)))
    y = n.emit(make(n.size("dim")), x)
    if n.proto.op_type != "_safe_softmax.default":
        return y
    return _where_something_counts(n, x, y)


def _where_something_counts(n: TorchNode, x: Value, y: Value) -> Value:
    """0 where all of a line is -inf."""
    axis = normal_axis(n.size("dim"), x.type)
    peak = n.emit(ReduceMax((axis,)), x)
    nothing = n.emit(Equal(), peak, scalar(n.builder, float("-inf"), x))
    return n.emit(Where(), nothing, scalar(n.builder, 0.0, y), y)
