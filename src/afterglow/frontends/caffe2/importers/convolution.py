"""Caffe2's convolutions."""

from __future__ import annotations

from afterglow.frontends.caffe2.importers.windows import given_pads, read_windows, sizes
from afterglow.frontends.caffe2.registry import Caffe2Node, caffe2_op
from afterglow.frontends.common.layout import to_channels_last
from afterglow.graph import Value
from afterglow.ops.activation import Relu
from afterglow.ops.convolution import Conv, ConvTranspose
from afterglow.support.errors import ModelError


def _weight(n: Caffe2Node) -> tuple[Value, tuple[int, ...]]:
    """The weights with their channels last, and the kernel, which must be what is written."""
    weight = n[1]
    kernel = n.spatial(weight)
    last = n.image(weight)
    if any(n.has(name) for name in ("kernel", "kernels", "kernel_h")):
        written = sizes(n, "kernel", len(kernel), None)
        if n.is_nhwc and written != kernel and written == weight.type.shape[2:]:
            return to_channels_last(n, weight), written  # as some converters leave them
        if written != kernel:
            raise ModelError(f"the kernel is {written}, but the weights are {weight.type}")
    return last, kernel


@caffe2_op("Conv")
def conv(n: Caffe2Node) -> Value:
    """Weights are [O, C / groups, kernel…], or channels last as the image is."""
    weight, kernel = _weight(n)
    w = read_windows(n, kernel, n.spatial(n[0]))
    op = Conv(w.strides, w.pads, w.dilations, n.integer("group", 1))
    return n.result(n.emit(op, n.image(n[0]), weight, n.get(2)))


@caffe2_op("ConvRelu")
def conv_relu(n: Caffe2Node) -> Value:
    """A convolution, rectified."""
    return n.emit(Relu(), conv(n))


@caffe2_op("ConvTranspose")
def conv_transpose(n: Caffe2Node) -> Value:
    """Weights are [C, O / groups, kernel…], or channels last as the image is."""
    weight, kernel = _weight(n)
    rank = len(kernel)
    if n.integer("legacy_pad", 0):
        raise n.fail("a transposed convolution has no legacy padding")
    op = ConvTranspose(
        sizes(n, "stride", rank, 1),
        given_pads(n, rank),
        sizes(n, "dilation", rank, 1),
        n.integer("group", 1),
        sizes(n, "adj", rank, 0),
    )
    return n.result(n.emit(op, n.image(n[0]), weight, n.get(2)))
