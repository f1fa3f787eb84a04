"""Caffe2's activations."""

from __future__ import annotations

from afterglow.frontends.caffe2.registry import Caffe2Node, caffe2_op, flattened
from afterglow.graph import Value
from afterglow.ops import activation as a
from afterglow.ops.elementwise import Div, Sub, scalar
from afterglow.ops.functions import Log, Tanh
from afterglow.ops.movement import Reshape
from afterglow.ops.softmax import LogSoftmax, Softmax
from afterglow.support.errors import ModelError

_PLAIN = {
    "Relu": a.Relu(),
    "Sigmoid": a.Sigmoid(),
    "Tanh": Tanh(),
    "Softplus": a.Softplus(),
    "Softsign": a.Softsign(),
    "Swish": a.Swish(),
}


@caffe2_op(*_PLAIN)
def plain(n: Caffe2Node) -> Value:
    """Activations without attributes."""
    return n.emit(_PLAIN[n.proto.op_type.removeprefix("Int8")], n[0])


@caffe2_op("LeakyRelu")
def leaky_relu(n: Caffe2Node) -> Value:
    """Negative numbers times alpha."""
    return n.emit(a.LeakyRelu(n.number("alpha", 0.01)), n[0])


@caffe2_op("Elu")
def elu(n: Caffe2Node) -> Value:
    """Negative numbers become alpha (exp(x) - 1)."""
    return n.emit(a.Elu(n.number("alpha", 1.0)), n[0])


@caffe2_op("Selu")
def selu(n: Caffe2Node) -> Value:
    """Scale times elu."""
    alpha, scale = n.number("alpha", 1.6732631921768188), n.number("scale", 1.0507010221481323)
    return n.emit(a.Selu(alpha, scale), n[0])


@caffe2_op("Gelu")
def gelu(n: Caffe2Node) -> Value:
    """By the error function, or fast by tanh."""
    return n.emit(a.Gelu(n.flag("fast_gelu")), n[0])


@caffe2_op("HardSigmoid")
def hard_sigmoid(n: Caffe2Node) -> Value:
    """alpha x + beta within 0 and 1."""
    return n.emit(a.HardSigmoid(n.number("alpha", 0.2), n.number("beta", 0.5)), n[0])


@caffe2_op("ReluN")
def relu_n(n: Caffe2Node) -> Value:
    """x within 0 and n."""
    return n.emit(a.Clip(0.0, n.number("n", 6.0)), n[0])


@caffe2_op("Clip")
def clip(n: Caffe2Node) -> Value:
    """x within min and max, as far as they are given."""
    bounds = (n.number(name) if n.has(name) else None for name in ("min", "max"))
    return n.emit(a.Clip(*bounds), n[0])


@caffe2_op("PRelu")
def prelu(n: Caffe2Node) -> Value:
    """One slope for all channels, or one for each."""
    x, slope = n[0], n[1]
    if slope.type.rank != 1:
        raise ModelError(f"slopes must have 1 axis, they are {slope.type}")
    if slope.type.size > 1 and not n.is_nhwc and x.type.rank > 2:
        slope = n.emit(Reshape((slope.type.size, *(1,) * (x.type.rank - 2))), slope)
    return n.emit(a.PRelu(), x, slope)


@caffe2_op("Softmax", "LogSoftmax")
def softmax(n: Caffe2Node) -> Value:
    """Over all axes from one on, as if they were a single one."""
    x = n[0]
    op = LogSoftmax(-1) if n.proto.op_type == "LogSoftmax" else Softmax(-1)
    axis = n.axis(x)
    if axis == x.type.rank - 1:
        return n.emit(op, x)
    matrix = n.emit(Reshape(flattened(n, x, axis)), x)
    return n.emit(Reshape(x.type.shape), n.emit(op, matrix))


@caffe2_op("Logit")
def logit(n: Caffe2Node) -> Value:
    """log(x / (1 - x)), for x from eps to 1 - eps."""
    eps = n.number("eps", 1e-6)
    x = n.emit(a.Clip(eps, 1.0 - eps), n[0])
    return n.emit(Log(), n.emit(Div(), x, n.emit(Sub(), scalar(n.builder, 1, x), x)))
