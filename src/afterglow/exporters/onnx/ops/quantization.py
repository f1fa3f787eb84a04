"""Quantization, with one scale or several, and sums of products of quantized numbers."""

from __future__ import annotations

import numpy as np

from afterglow.exporters.onnx.file import onnx_type
from afterglow.exporters.onnx.layouts import channels_first, plain, swapped
from afterglow.exporters.onnx.node import NodeWriter
from afterglow.exporters.onnx.registry import exports, images
from afterglow.graph import Node
from afterglow.ops.quantization import DequantizeLinear, QuantizeLinear, Quantizing
from afterglow.ops.quantized import QuantizedConv, QuantizedMatMul


@exports(QuantizeLinear)
def quantize(n: NodeWriter) -> str:
    """The zero point says the type; without one, an attribute does."""
    stated = onnx_type(n.op.dtype) if n.value(2) is None else None
    saturates = None if n.op.saturate else 0
    return n.emit(
        "QuantizeLinear",
        *_operands(n),
        axis=_axis(n),
        block_size=n.op.block_size or None,
        output_dtype=stated,
        saturate=saturates,
    )


def _scale_has_type(node: Node) -> bool:
    op = node.op
    return isinstance(op, DequantizeLinear) and node.given[1].type.dtype is op.dtype


@exports(DequantizeLinear, accepts=_scale_has_type)
def dequantize(n: NodeWriter) -> str:
    """The scale says the type."""
    block = n.op.block_size or None
    return n.emit("DequantizeLinear", *_operands(n), axis=_axis(n), block_size=block)


def _operands(n: NodeWriter) -> list[str]:
    """Scales and zero points of blocks have the axes of x."""
    x = n.operand(0)
    if not n.op.block_size or n.layout is None:
        return [x, *(n.operand(i) for i in (1, 2))]
    return [x, *(n.operand(i, n.layout) for i in (1, 2))]


def _axis(n: NodeWriter) -> int | None:
    """Where the scales run along; of one scale, nowhere."""
    op: Quantizing = n.op
    return op.axis % n.type(0).rank if n.type(1).rank else None


def _gives_sums(node: Node) -> bool:
    """Whether the result is the sums; scaled ones are products of dequantized numbers."""
    return node.operand("scale") is None


@exports(QuantizedConv, layout=images, accepts=_gives_sums)
def conv_sums(n: NodeWriter) -> str:
    """Sums of products, in integers."""
    op, weight = n.op, n.operand(1, channels_first(n.type(1).rank))
    zero = _zero(n, op.x_zero_point, 0) if n.value(4) is None else n.operand(4, ())
    sums = n.emit(
        "ConvInteger",
        *(n.operand(0), weight, zero, _zero(n, op.weight_zero_point, 1)),
        kernel_shape=n.type(1).shape[1:-1],
        strides=op.strides,
        pads=op.pads,
        dilations=op.dilations,
        group=op.groups,
    )
    return sums if n.value(3) is None else n.emit("Add", sums, n.operand(3))


@exports(QuantizedMatMul, layout=lambda node: plain(node.result.type.rank), accepts=_gives_sums)
def matmul_sums(n: NodeWriter) -> str:
    """Sums of products, in integers."""
    op, ranks = n.op, (n.type(0).rank, n.type(1).rank)
    left = swapped(ranks[0]) if op.transpose_lhs else plain(ranks[0])
    right = swapped(ranks[1]) if op.transpose_rhs else plain(ranks[1])
    zeros = (_zero(n, op.lhs_zero_point, 0), _zero(n, op.rhs_zero_point, 1))
    sums = n.emit("MatMulInteger", n.operand(0, left), n.operand(1, right), *zeros)
    return sums if n.value(3) is None else n.emit("Add", sums, n.operand(3))


def _zero(n: NodeWriter, zero_point: int, index: int) -> str:
    """The zero point of an operand."""
    return n.constant(np.array(zero_point, n.type(index).dtype.numpy))
