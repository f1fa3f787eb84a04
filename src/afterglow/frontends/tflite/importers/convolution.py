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
    """A convolution, and what is fused to it."""
    op, weight = conv_2d_of(n)
    return activated(n, n.emit(op, n[0], weight, n.get(2)))


def conv_2d_of(n: TfliteNode) -> tuple[Conv, Value]:
    """The convolution that a node is, and its weight [O, height, width, C / groups]."""
    x, weight = n[0], n[1]
    _, height, width, channels = n.extents(x, 4)
    _, *kernel, inner = n.extents(weight, 4)
    if inner < 1 or channels % inner:
        raise ModelError(f"weight {weight.type} does not fit x: {x.type}")
    w = read_windows(n, kernel, (height, width))
    return Conv(w.strides, w.pads, w.dilations, channels // inner), weight


@tflite_op("DEPTHWISE_CONV_2D")
def depthwise_conv_2d(n: TfliteNode) -> Value:
    """A convolution with one group a channel of x, and what is fused to it."""
    op, weight = depthwise_conv_2d_of(n)
    return activated(n, n.emit(op, n[0], weight, n.get(2)))


def depthwise_conv_2d_of(n: TfliteNode) -> tuple[Conv, Value]:
    """The convolution that a node is, and its weight: the file has it as [1, height, width, O]."""
    x, weight = n[0], n[1]
    _, height, width, channels = n.extents(x, 4)
    first, *kernel, outputs = n.extents(weight, 4)
    if first != 1 or channels < 1 or outputs % channels:
        raise ModelError(f"weight {weight.type} does not fit x: {x.type}")
    w = read_windows(n, kernel, (height, width))
    weight = n.emit(Reshape((outputs, *kernel, 1)), n.emit(Transpose((3, 1, 2, 0)), weight))
    return Conv(w.strides, w.pads, w.dilations, channels), weight
