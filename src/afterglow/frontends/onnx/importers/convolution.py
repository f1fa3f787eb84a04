"""ONNX's convolutions."""

from __future__ import annotations

from afterglow.frontends.common.layout import to_channels_first, to_channels_last
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.importers.linear import above_zero_point, dequantized, requantized
from afterglow.frontends.onnx.importers.windows import given_windows, read_windows, split_pads
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.ops.convolution import Conv, ConvTranspose
from afterglow.ops.deform_conv import DeformConv
from afterglow.ops.elementwise import Mul
from afterglow.ops.windows import Windows
from afterglow.support.errors import ModelError


@onnx_op("Conv")
def conv(n: NodeContext) -> Value:
    """The kernel's extents are those of the weight."""
    return convolve(n, n[0], n[1], n.get(2))


def convolve(n: NodeContext, x: Value, weight: Value, bias: Value | None) -> Value:
    """A convolution, channels first, by the attributes of the node."""
    w = read_windows(n, weight.type.shape[2:], x.type.shape[2:])
    op = Conv(w.strides, w.pads, w.dilations, n.integer("group", 1))
    x, weight = to_channels_last(n, x), to_channels_last(n, weight)
    return to_channels_first(n, n.emit(op, x, weight, bias))


@onnx_op("ConvInteger")
def conv_integer(n: NodeContext) -> Value:
    """A convolution in i32 of what the operands are above their zero points."""
    x = above_zero_point(n, n[0], n.get(2), axis=1)
    weight = above_zero_point(n, n[1], n.get(3), axis=0)
    return convolve(n, x, weight, None)


@onnx_op("QLinearConv")
def qlinear_conv(n: NodeContext) -> Value:
    """A convolution of real numbers, quantized again.

    The bias comes in steps of the product of both scales.
    """
    x = dequantized(n, n[0], n[1], n[2], axis=1)
    weight = dequantized(n, n[3], n[4], n[5], axis=0)
    bias = n.get(8)
    if bias is not None:
        bias = dequantized(n, bias, n.emit(Mul(), n[1], n[4]), None, axis=0)
    return requantized(n, convolve(n, x, weight, bias), n[6], n[7], axis=1)


@onnx_op("ConvTranspose")
def conv_transpose(n: NodeContext) -> Value:
    """The kernel's extents are those of the weight [C, O / groups, kernel…]."""
    x, weight = n[0], n[1]
    n.extents(weight, x.type.rank)
    w = given_windows(n, weight.type.shape[2:])
    pads, added = _transpose_pads(n, w, x.type.shape[2:])
    op = ConvTranspose(w.strides, pads, w.dilations, n.integer("group", 1), added)
    x, weight = to_channels_last(n, x), to_channels_last(n, weight)
    return to_channels_first(n, n.emit(op, x, weight, n.get(2)))


def _transpose_pads(
    n: NodeContext, w: Windows, extents: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What to cut off and what to add behind: as given, or so that the result has its extents."""
    added = n.counted("output_padding", len(extents), 0)
    auto_pad = n.text("auto_pad", "NOTSET")
    if n.has("output_shape"):
        wanted = n.integers("output_shape")[-len(extents) :]
        if len(wanted) != len(extents):
            raise ModelError(f"output_shape {wanted} does not fit x: {n[0].type}")
    elif auto_pad.startswith("SAME"):
        wanted = tuple(extent * stride for extent, stride in zip(extents, w.strides, strict=True))
    else:
        return (w.pads if auto_pad == "NOTSET" else (0,) * len(w.pads)), added
    rows = zip(extents, w.strides, w.reach, added, wanted, strict=True)
    totals = [(extent - 1) * step + reach + more - want for extent, step, reach, more, want in rows]
    placement = "SAME_UPPER" if auto_pad == "SAME_UPPER" else "SAME_LOWER"
    pads = split_pads(n, placement, [max(0, total) for total in totals])
    return pads, tuple(more + max(0, -t) for more, t in zip(added, totals, strict=True))


@onnx_op("DeformConv")
def deform_conv(n: NodeContext) -> Value:
    """Offsets and mask are images too."""
    mask = n.get(4)
    w = given_windows(n, n[1].type.shape[2:])
    groups = n.integer("group", 1), n.integer("offset_group", 1)
    op = DeformConv(w.strides, w.pads, w.dilations, *groups)
    x, weight, offset = (to_channels_last(n, value) for value in (n[0], n[1], n[2]))
    mask = None if mask is None else to_channels_last(n, mask)
    return to_channels_first(n, n.emit(op, x, weight, offset, n.get(3), mask))
