"""TFLite's random numbers: of the same distributions, but other ones than TFLite draws."""

from __future__ import annotations

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.movement import reshaped
from afterglow.frontends.common.random import drawn, drawn_normal
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import tflite_op
from afterglow.graph import Value
from afterglow.ops.elementwise import LessEqual
from afterglow.ops.movement import slice_axis
from afterglow.ops.reduction import CumSum, ReduceSum
from afterglow.ops.softmax import Softmax


@tflite_op("RANDOM_UNIFORM")
def random_uniform(n: TfliteNode) -> Value:
    """From 0 to 1, in a shape."""
    return drawn(n, n.known_extents(0), n.result_type())


@tflite_op("RANDOM_STANDARD_NORMAL")
def random_normal(n: TfliteNode) -> Value:
    """Of mean 0 and deviation 1, in a shape."""
    return drawn_normal(n, n.known_extents(0), n.result_type())


@tflite_op("MULTINOMIAL")
def multinomial(n: TfliteNode) -> Value:
    """So many classes for each row of logits, drawn by their probabilities."""
    logits, count = n[0], n.known_int(1)
    batch, classes = n.extents(logits, 2)
    sums = n.emit(CumSum(1), n.emit(Softmax(1), logits))
    inner = n.emit(slice_axis(sums.type, 1, 0, classes - 1), sums)  # the last one is about 1
    steps = reshaped(n, inner, (batch, 1, classes - 1))
    points = reshaped(n, drawn(n, (batch, count), logits.type.dtype), (batch, count, 1))
    passed = as_dtype(n, n.emit(LessEqual(), steps, points), n.result_type())
    return n.emit(ReduceSum((2,), keepdims=False), passed)
