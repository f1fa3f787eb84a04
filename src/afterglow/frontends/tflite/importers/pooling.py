"""TFLite's pooling, and windows that are reduced."""

from __future__ import annotations

from afterglow.frontends.tflite.importers.activation import activated
from afterglow.frontends.tflite.importers.windows import read_windows
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import tflite_op
from afterglow.graph import Value
from afterglow.ops.elementwise import Mul
from afterglow.ops.functions import Sqrt
from afterglow.ops.pooling import AvgPool, MaxPool
from afterglow.ops.windows import Windows
from afterglow.support.errors import ModelError


def pool_windows(n: TfliteNode) -> Windows:
    """The windows of a pooling."""
    _, height, width, _ = n.extents(n[0], 4)
    kernel = n.count("filter_height"), n.count("filter_width")
    if min(kernel) < 1:
        raise ModelError(f"a window of {kernel} has no elements")
    return read_windows(n, kernel, (height, width))


@tflite_op("MAX_POOL_2D")
def max_pool(n: TfliteNode) -> Value:
    """The largest of each window."""
    w = pool_windows(n)
    return activated(n, n.emit(MaxPool(w.kernel, w.strides, w.pads, w.dilations), n[0]))


@tflite_op("AVERAGE_POOL_2D")
def average_pool(n: TfliteNode) -> Value:
    """The mean of each window, without the padding."""
    return activated(n, _averaged(n, n[0]))


@tflite_op("L2_POOL_2D")
def l2_pool(n: TfliteNode) -> Value:
    """The root of the mean of squares of each window."""
    squares = n.emit(Mul(), n[0], n[0])
    return activated(n, n.emit(Sqrt(), _averaged(n, squares)))


def _averaged(n: TfliteNode, x: Value) -> Value:
    w = pool_windows(n)
    return n.emit(AvgPool(w.kernel, w.strides, w.pads, w.dilations), x)
