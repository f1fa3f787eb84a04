"""TFLite's convolutions: channels last, as ours are."""

from __future__ import annotations

from afterglow.frontends.tflite.importers.activation import activated
from afterglow.frontends.tflite.importers.windows import read_windows
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import tflite_op
from afterglow.graph import Value
from afterglow.ops.convolution import Conv
from afterglow.ops.movement import Reshape, Transpose
from afterglow.support.errors import ModelError


@tflite_op("CONV_2D")
def conv_2d(n: TfliteNode) -> Value:
    """The weight is [O, height, width, C / groups]."""
    x, weight = n[0], n[1]
    _, height, width, channels = n.extents(x, 4)
    _, *kernel, inner = n.extents(weight, 4)
    if inner < 1 or channels % inner:
        raise ModelError(f"weight {weight.type} does not fit x: {x.type}")
    w = read_windows(n, kernel, (height, width))
    op = Conv(w.strides, w.pads, w.dilations, channels // inner)
    return activated(n, n.emit(op, x, weight, n.get(2)))


@tflite_op("DEPTHWISE_CONV_2D")
def depthwise_conv_2d(n: TfliteNode) -> Value:
    """The weight is [1, height, width, O]: one group a channel of x."""
    x, weight = n[0], n[1]
    _, height, width, channels = n.extents(x, 4)
    first, *kernel, outputs = n.extents(weight, 4)
    if first != 1 or channels < 1 or outputs % channels:
        raise ModelError(f"weight {weight.type} does not fit x: {x.type}")
    w = read_windows(n, kernel, (height, width))
    weight = n.emit(Reshape((outputs, *kernel, 1)), n.emit(Transpose((3, 1, 2, 0)), weight))
    op = Conv(w.strides, w.pads, w.dilations, channels)
    return activated(n, n.emit(op, x, weight, n.get(2)))
