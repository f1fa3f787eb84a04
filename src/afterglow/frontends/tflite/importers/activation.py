"""TFLite's activation functions, as ops and as fused to others."""

from __future__ import annotations

from collections.abc import Callable

from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import tflite_op
from afterglow.graph import Op, Value
from afterglow.ops import activation as a
from afterglow.ops import functions as f
from afterglow.ops.elementwise import Mul
from afterglow.ops.softmax import LogSoftmax, Softmax
from afterglow.support.errors import UnsupportedError

FUSED: dict[str, Callable[[], Op]] = {
    "RELU": a.Relu,
    "RELU_N1_TO_1": lambda: a.Clip(-1.0, 1.0),
    "RELU6": lambda: a.Clip(0.0, 6.0),
    "TANH": f.Tanh,
}
"""Activation functions that may be fused to an op, by the schema's names."""

_PLAIN: dict[str, Callable[[], Op]] = {
    "RELU": a.Relu,
    "RELU_N1_TO_1": lambda: a.Clip(-1.0, 1.0),
    "RELU6": lambda: a.Clip(0.0, 6.0),
    "RELU_0_TO_1": lambda: a.Clip(0.0, 1.0),
    "TANH": f.Tanh,
    "LOGISTIC": a.Sigmoid,
    "HARD_SWISH": a.HardSwish,
    "ELU": a.Elu,
}


def activated(n: TfliteNode, y: Value) -> Value:
    """A result with the activation function that is fused to the op."""
    name = n.word("fused_activation_function", "NONE")
    if name == "NONE":
        return y
    if name not in FUSED:
        raise UnsupportedError(f"the fused activation function {name} is not supported")
    return n.emit(FUSED[name](), y)


@tflite_op(*_PLAIN)
def plain(n: TfliteNode) -> Value:
    """One operand, no options."""
    return n.emit(_PLAIN[n.proto.op_type](), n[0])


@tflite_op("GELU")
def gelu(n: TfliteNode) -> Value:
    """Exact, or approximated with tanh."""
    return n.emit(a.Gelu(n.flag("approximate")), n[0])


@tflite_op("LEAKY_RELU")
def leaky_relu(n: TfliteNode) -> Value:
    """The slope is an option."""
    return n.emit(a.LeakyRelu(n.real("alpha")), n[0])


@tflite_op("PRELU")
def prelu(n: TfliteNode) -> Value:
    """The slope broadcasts to x."""
    return n.emit(a.PRelu(), n[0], n[1])


@tflite_op("SOFTMAX")
def softmax(n: TfliteNode) -> Value:
    """Along the last axis, of x times beta."""
    beta = n.real("beta", 1.0)
    x = n[0] if beta == 1.0 else n.emit(Mul(), n[0], n.full(beta, n[0].type.dtype))
    return n.emit(Softmax(-1), x)


@tflite_op("LOG_SOFTMAX")
def log_softmax(n: TfliteNode) -> Value:
    """Along the last axis."""
    return n.emit(LogSoftmax(-1), n[0])
