"""ONNX's random ops: all from uniform numbers."""

from __future__ import annotations

import numpy as np

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.movement import number_like, reshaped
from afterglow.frontends.common.random import drawn, drawn_normal
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Constant, Value
from afterglow.ops import elementwise as e
from afterglow.ops.movement import Expand, slice_axis
from afterglow.ops.random import Dropout
from afterglow.ops.reduction import CumSum, ReduceSum
from afterglow.ops.softmax import Softmax
from afterglow.types import DType
from afterglow.types.dtype import boolean, f32, f64, i32


@onnx_op("RandomUniform")
def random_uniform(n: NodeContext) -> Value:
    """Of a shape and type that attributes give."""
    return _uniform(n, n.integers("shape"), n.dtype("dtype", f32))


@onnx_op("RandomUniformLike")
def random_uniform_like(n: NodeContext) -> Value:
    """Of the shape, and if nothing else is said the type, of the operand."""
    return _uniform(n, n[0].type.shape, n.dtype("dtype", n[0].type.dtype))


def _uniform(n: NodeContext, shape: tuple[int, ...], dtype: DType) -> Value:
    unit = drawn(n, shape, dtype)
    low, high = n.number("low", 0.0), n.number("high", 1.0)
    scaled = n.emit(e.Mul(), unit, number_like(n, high - low, unit))
    return as_dtype(n, n.emit(e.Add(), scaled, number_like(n, low, unit)), dtype)


@onnx_op("RandomNormal")
def random_normal(n: NodeContext) -> Value:
    """Of a shape and type that attributes give."""
    return _normal(n, n.integers("shape"), n.dtype("dtype", f32))


@onnx_op("RandomNormalLike")
def random_normal_like(n: NodeContext) -> Value:
    """Of the shape, and if nothing else is said the type, of the operand."""
    return _normal(n, n[0].type.shape, n.dtype("dtype", n[0].type.dtype))


def _normal(n: NodeContext, shape: tuple[int, ...], dtype: DType) -> Value:
    """Scaled and moved."""
    unit = drawn_normal(n, shape, dtype)
    scaled = n.emit(e.Mul(), unit, number_like(n, n.number("scale", 1.0), unit))
    return as_dtype(n, n.emit(e.Add(), scaled, number_like(n, n.number("mean", 0.0), unit)), dtype)


@onnx_op("Bernoulli")
def bernoulli(n: NodeContext) -> Value:
    """1 with the probability that the operand gives, as the standard says; its body says 0."""
    chance = as_dtype(n, n[0], f64 if n[0].type.dtype is f64 else f32)
    hit = n.emit(e.Less(), drawn(n, chance.type.shape, chance.type.dtype), chance)
    return as_dtype(n, hit, n.dtype("dtype", n[0].type.dtype))


@onnx_op("Multinomial")
def multinomial(n: NodeContext) -> Value:
    """Classes by their log-probabilities: how many steps of the running sum are not above u."""
    x = as_dtype(n, n[0], f64 if n[0].type.dtype is f64 else f32)
    batch, classes = n.extents(x, 2)
    count, dtype = n.integer("sample_size", 1), n.dtype("dtype", i32)
    sums = n.emit(CumSum(1), n.emit(Softmax(1), x))
    inner = n.emit(slice_axis(sums.type, 1, 0, classes - 1), sums)  # the last one is about 1
    steps = reshaped(n, inner, (batch, 1, classes - 1))
    points = reshaped(n, drawn(n, (batch, count), x.type.dtype), (batch, count, 1))
    passed = n.emit(e.LessEqual(), steps, points)
    return n.emit(ReduceSum((2,), keepdims=False), as_dtype(n, passed, dtype))


@onnx_op("Dropout")
def dropout(n: NodeContext) -> tuple[Value, Value | None]:
    """Nothing is dropped in inference, which before version 12 is all there is."""
    if n.get(2) is not None and bool(n.known_number(2)):
        return _dropped(n)
    rate = _rate(n)
    y = n[0] if rate is None else n.emit(Dropout(rate), n[0])
    if not n.wants(1):
        return y, None
    dtype = boolean if n.opset >= 10 else n[0].type.dtype
    return y, n.emit(Expand(n[0].type.shape), n.constant(np.ones((), dtype.numpy)))


def _rate(n: NodeContext) -> float | None:
    """The share of elements that training drops; None where it is not one, or not known."""
    given = n.get(1)
    if given is None:
        rate = n.number("ratio", 0.5)
    elif isinstance(given, Constant) and given.data.size == 1:
        rate = float(given.data.item())
    else:
        return None
    return rate if 0 <= rate < 1 and n[0].type.dtype.is_float else None


def _dropped(n: NodeContext) -> tuple[Value, Value]:
    """Each element is kept with probability 1 - ratio, and then divided by that."""
    x = n[0]
    ratio = n.get(1)
    share = n.constant(np.array(0.5, np.float32)) if ratio is None else as_dtype(n, ratio, f32)
    kept = n.emit(e.LessEqual(), share, drawn(n, x.type.shape, f32))
    rest = as_dtype(n, n.emit(e.Sub(), number_like(n, 1.0, share), share), x.type.dtype)
    return n.emit(e.Where(), kept, n.emit(e.Div(), x, rest), number_like(n, 0.0, x)), kept
