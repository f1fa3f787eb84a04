"""TFLite's convolutions: channels last, as ours are."""

from __future__ import annotations

from afterglow.frontends.tflite.importers.activation import activated
from afterglow.frontends.tflite.importers.windows import read_windows
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import tflite_op
from afterglow.graph import Value
from afterglow.ops.convolution import Conv, ConvTranspose
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
    if inner < 1 or channels < 1 or channels % inner:
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


@tflite_op("TRANSPOSE_CONV")
def transpose_conv(n: TfliteNode) -> Value:
    """Operand 0 is the shape of the result, the weight [O, height, width, C]."""
    return _transposed(n, *transpose_conv_of(n))


def transpose_conv_of(n: TfliteNode) -> tuple[ConvTranspose, Value]:
    """The transposed convolution that a node is, and its weight [C, height, width, O]."""
    weight = n.emit(Transpose((3, 1, 2, 0)), n[1])
    return _transposed_of(n, weight), weight


@tflite_op("CONV_3D_TRANSPOSE")
def conv_3d_transpose(n: TfliteNode) -> Value:
    """Operand 0 is the shape of the result, the weight [depth, height, width, O, C]."""
    weight = n.emit(Transpose((4, 0, 1, 2, 3)), n[1])
    return _transposed(n, _transposed_of(n, weight), weight)


def _transposed(n: TfliteNode, op: ConvTranspose, weight: Value) -> Value:
    return activated(n, n.emit(op, n[2], weight, n.get(3)))


def _transposed_of(n: TfliteNode, weight: Value) -> ConvTranspose:
    """By a weight [C, kernel…, O]; pads are those of the convolution from the result to x."""
    x, shape = n[2], n.known_extents(0)
    kernel = weight.type.shape[1:-1]
    rank = len(kernel)
    if x.type.rank != rank + 2 or len(shape) != rank + 2:
        raise ModelError(f"x {x.type} and the shape {shape} of the result do not belong together")
    w = read_windows(n, kernel, shape[1:-1])
    rows = zip(x.type.shape[1:-1], w.strides, w.reach, w.begins, shape[1:-1], strict=True)
    ends = [(e - 1) * stride + reach - begin - want for e, stride, reach, begin, want in rows]
    pads = (*w.begins, *(max(0, end) for end in ends))
    more = tuple(max(0, -end) for end in ends)
    return ConvTranspose(w.strides, pads, w.dilations, 1, more)


@tflite_op("CONV_3D")
def conv_3d(n: TfliteNode) -> Value:
    """The weight is [depth, height, width, C, O]."""
    x, weight = n[0], n[1]
    _, *extents, channels = n.extents(x, 5)
    *kernel, inner, _ = n.extents(weight, 5)
    if inner < 1 or channels < 1 or channels % inner:
        raise ModelError(f"weight {weight.type} does not fit x: {x.type}")
    w = read_windows(n, kernel, extents)
    op = Conv(w.strides, w.pads, w.dilations, channels // inner)
    return activated(n, n.emit(op, x, n.emit(Transpose((4, 0, 1, 2, 3)), weight), n.get(2)))
