"""ONNX's activation functions."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Op, Value
from afterglow.ops import activation as a
from afterglow.ops import softmax as s
from afterglow.ops.elementwise import Max, Min
from afterglow.ops.movement import Reshape
from afterglow.types import Array
from afterglow.types import dtype as d

_PLAIN: dict[str, type[Op]] = {
    "Relu": a.Relu,
    "Sigmoid": a.Sigmoid,
    "HardSwish": a.HardSwish,
    "Softplus": a.Softplus,
    "Softsign": a.Softsign,
    "Mish": a.Mish,
}
_WITH_NUMBERS: dict[str, tuple[Callable[..., Op], dict[str, float]]] = {
    "LeakyRelu": (a.LeakyRelu, {"alpha": 0.01}),
    "HardSigmoid": (a.HardSigmoid, {"alpha": 0.2, "beta": 0.5}),
    "Swish": (a.Swish, {"alpha": 1.0}),
    "Elu": (a.Elu, {"alpha": 1.0}),
    "Celu": (a.Celu, {"alpha": 1.0}),
    "ThresholdedRelu": (a.ThresholdedRelu, {"alpha": 1.0}),
}
_ALONG_AXIS: dict[str, Callable[[int], Op]] = {
    "Softmax": s.Softmax,
    "LogSoftmax": s.LogSoftmax,
    "Hardmax": s.Hardmax,
}


@onnx_op(*_PLAIN)
def plain(n: NodeContext) -> Value:
    """One operand, no attributes."""
    return n.emit(_PLAIN[n.proto.op_type](), n[0])


@onnx_op(*_WITH_NUMBERS)
def with_numbers(n: NodeContext) -> Value:
    """One operand, float attributes with defaults."""
    make, defaults = _WITH_NUMBERS[n.proto.op_type]
    return n.emit(make(**{name: n.number(name, x) for name, x in defaults.items()}), n[0])


@onnx_op("Selu")
def selu_1(n: NodeContext) -> Value:
    """The first version has less exact defaults."""
    return n.emit(a.Selu(n.number("alpha", 1.6732), n.number("gamma", 1.0507)), n[0])


@onnx_op("Selu", since=6)
def selu(n: NodeContext) -> Value:
    """The defaults are ours."""
    alpha, gamma = n.number("alpha", a.Selu.alpha), n.number("gamma", a.Selu.gamma)
    return n.emit(a.Selu(alpha, gamma), n[0])


@onnx_op("Gelu")
def gelu(n: NodeContext) -> Value:
    """`approximate` is a word."""
    return n.emit(a.Gelu(n.text("approximate", "none") == "tanh"), n[0])


@onnx_op("Shrink")
def shrink(n: NodeContext) -> Value:
    """Integers are compared with fractions, so they are shrunk as floats."""
    op = a.Shrink(n.number("lambd", 0.5), n.number("bias", 0.0))
    dtype = n[0].type.dtype
    if dtype.is_float:
        return n.emit(op, n[0])
    return as_dtype(n, n.emit(op, as_dtype(n, n[0], d.f64)), dtype)


@onnx_op("PRelu")
def prelu(n: NodeContext) -> Value:
    """The slope broadcasts to x; before version 7 it runs along axis 1."""
    x, slope = n[0], n[1]
    if n.opset < 7 and slope.type.rank == 1 and slope.type.size > 1:
        slope = n.emit(Reshape(slope.type.shape + (1,) * (x.type.rank - 2)), slope)
    return n.emit(a.PRelu(), x, slope)


@onnx_op("Clip")
def clip_by_attributes(n: NodeContext) -> Value:
    """The bounds are attributes."""
    low, high = (n.number(name) if n.has(name) else None for name in ("min", "max"))
    return n.emit(a.Clip(low, high), n[0])


@onnx_op("Clip", since=11)
def clip(n: NodeContext) -> Value:
    """The bounds are inputs: attributes of ours if they are known and exact as floats."""
    x, given = n[0], (n.get(1), n.get(2))
    bounds = [None if value is None else _exact(n.value_if_known(value)) for value in given]
    if all(value is None or bound is not None for value, bound in zip(given, bounds, strict=True)):
        return n.emit(a.Clip(*bounds), x)
    for value, op in zip(given, (Max(), Min()), strict=True):
        x = x if value is None else n.emit(op, x, n.emit(Reshape(()), value))
    return x


def _exact(bound: Array | None) -> float | None:
    """A known bound as an attribute, which must be finite and the same number."""
    if bound is None or bound.size != 1:
        return None
    number = float(bound.reshape(()))
    same = math.isfinite(number) and np.all(np.asarray(number).astype(bound.dtype) == bound)
    return number if same else None


@onnx_op(*_ALONG_AXIS)
def along_all_axes_from(n: NodeContext) -> Value:
    """Before version 13, `axis` splits the shape in two: everything after it is one line."""
    x, make = n[0], _ALONG_AXIS[n.proto.op_type]
    shape, axis = x.type.shape, n.integer("axis", 1)
    if axis in (len(shape) - 1, -1):
        return n.emit(make(axis), x)
    flat = (math.prod(shape[:axis]), math.prod(shape[axis:]))
    return n.emit(Reshape(shape), n.emit(make(1), n.emit(Reshape(flat), x)))


@onnx_op(*_ALONG_AXIS, since=13)
def along_axis(n: NodeContext) -> Value:
    """From version 13 on, `axis` is one axis."""
    return n.emit(_ALONG_AXIS[n.proto.op_type](n.integer("axis", -1)), n[0])
