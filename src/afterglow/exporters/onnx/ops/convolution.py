"""Convolutions: ONNX has channels second, in data and in weights."""

from __future__ import annotations

from typing import Any

from afterglow.exporters.onnx.layouts import channels_first
from afterglow.exporters.onnx.node import NodeWriter
from afterglow.exporters.onnx.registry import exports, images
from afterglow.ops.convolution import Conv, ConvTranspose


@exports(Conv, layout=images)
def conv(n: NodeWriter) -> str:
    """Weights [O, kernel…, C] as [O, C, kernel…]."""
    return n.emit("Conv", *_operands(n), **_attributes(n))


@exports(ConvTranspose, layout=images)
def conv_transpose(n: NodeWriter) -> str:
    """Weights [C, kernel…, O] as [C, O, kernel…]."""
    added = n.op.output_pads if any(n.op.output_pads) else None
    return n.emit("ConvTranspose", *_operands(n), **_attributes(n), output_padding=added)


def _operands(n: NodeWriter) -> list[str]:
    weight = channels_first(n.type(1).rank)
    return [n.operand(0), n.operand(1, weight), n.operand(2, (0,))]


def _attributes(n: NodeWriter) -> dict[str, Any]:
    return {
        "kernel_shape": n.type(1).shape[1:-1],
        "strides": n.op.strides,
        "pads": n.op.pads,
        "dilations": n.op.dilations,
        "group": n.op.groups,
    }
