"""Caffe2's convolutions."""

from __future__ import annotations

from afterglow.frontends.caffe2.importers.windows import given_pads, read_windows, sizes
from afterglow.frontends.caffe2.registry import Caffe2Node, caffe2_op
from afterglow.graph import Value
from afterglow.ops.activation import Relu
from afterglow.ops.convolution import Conv, ConvTranspose
from afterglow.support.errors import ModelError


def _kernel(n: Caffe2Node, weight: Value) -> tuple[int, ...]:
    """The extents of a kernel are those of the weights; what is written must be the same."""
    kernel = n.spatial(weight)
    if any(n.has(name) for name in ("kernel", "kernels", "kernel_h")):
        written = sizes(n, "kernel", len(kernel), None)
        if written != kernel:
            raise ModelError(f"the kernel is {written}, but the weights are {weight.type}")
    return kernel


@caffe2_op("Conv")
def conv(n: Caffe2Node) -> Value:
    """Weights are [O, C / groups, kernel…], or channels last as the image is."""
    x, weight = n[0], n[1]
    w = read_windows(n, _kernel(n, weight), n.spatial(x))
    op = Conv(w.strides, w.pads, w.dilations, n.integer("group", 1))
    return n.result(n.emit(op, n.image(x), n.image(weight), n.get(2)))


@caffe2_op("ConvRelu")
def conv_relu(n: Caffe2Node) -> Value:
    """A convolution, rectified."""
    return n.emit(Relu(), conv(n))


@caffe2_op("ConvTranspose")
def conv_transpose(n: Caffe2Node) -> Value:
    """Weights are [C, O / groups, kernel…], or channels last as the image is."""
    x, weight = n[0], n[1]
    kernel = _kernel(n, weight)
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
    return n.result(n.emit(op, n.image(x), n.image(weight), n.get(2)))
