"""Recognise quantized ops that are written as ops on dequantized values."""

from __future__ import annotations

import numpy as np

from afterglow.graph import Builder, Constant, Node, Value
from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import Add
from afterglow.ops.linear import MatMul
from afterglow.ops.quantization import DequantizeLinear
from afterglow.ops.quantized import QuantizedConv, QuantizedMatMul
from afterglow.passes import RewritePass, rewrite
from afterglow.transforms.matching.quantized import Quantized, zero_point_of
from afterglow.transforms.matching.values import has_one_use
from afterglow.types.dtype import f32, i32


@rewrite(Conv)
def recognise_conv(node: Node, b: Builder) -> Value | None:
    """conv(dequantize(x), dequantize(w), c)  ->  quantized_conv(x, w) + c,  w a constant."""
    match node:
        case Node(Conv() as op, [Value() as x, Value() as weight, *rest]):
            lhs, rhs = Quantized.of(x), Quantized.of(weight)
            if lhs is None or rhs is None or not isinstance(rhs.stored, Constant):
                return None
            if not lhs.has_one_scale or not rhs.fits_columns(0):
                return None
            integers = QuantizedConv(
                op.strides, op.pads, op.dilations, op.groups, lhs.zero_point, rhs.zero_point
            )
            scale = _product_of_scales(b, lhs, rhs)
            product = b.emit(integers, lhs.stored, rhs.stored, scale)
            return b.emit(Add(), product, rest[0]) if rest and rest[0] is not None else product
    return None


@rewrite(MatMul)
def recognise_matmul(node: Node, b: Builder) -> Value | None:
    """matmul(dequantize(x), dequantize(y))  ->  quantized_matmul(x, y)."""
    match node:
        case Node(MatMul() as op, [Value() as x, Value() as y]):
            lhs, rhs = Quantized.of(x), Quantized.of(y)
            if lhs is None or rhs is None:
                return None
            columns = y.type.rank - (2 if op.transpose_rhs else 1)
            if not lhs.has_one_scale or not rhs.fits_columns(columns):
                return None
            integers = QuantizedMatMul(
                op.transpose_lhs, op.transpose_rhs, lhs.zero_point, rhs.zero_point
            )
            scale = _product_of_scales(b, lhs, rhs)
            return b.emit(integers, lhs.stored, rhs.stored, scale)
    return None


@rewrite(Add)
def take_bias(node: Node, b: Builder) -> Value | None:
    """quantized(x, w, s) + dequantize(c, s)  ->  quantized(x, w, s, c),  c a vector of i32."""
    match node:
        case Node(
            Add(),
            [
                Value(
                    Node(
                        QuantizedConv() | QuantizedMatMul() as op,
                        [Value() as x, Value() as weight, Constant() as scale],
                    )
                ) as product,
                Value(
                    Node(
                        DequantizeLinear(),
                        [Constant() as bias, Constant() as bias_scale, *rest],
                    )
                ),
            ],
        ) if has_one_use(product) and bias.type.dtype is i32:
            columns = product.type.shape[-1:]
            if bias.type.shape != columns or zero_point_of(rest[0] if rest else None) != 0:
                return None
            same = _are_same(scale, bias_scale, columns) and _fits_sums(bias, weight)
            return b.emit(op, x, weight, scale, bias) if same else None
    return None


def _product_of_scales(b: Builder, lhs: Quantized, rhs: Quantized) -> Value:
    product = lhs.scale.data * rhs.scale.data
    return b.constant(np.asarray(product), f"{b.name}.scale")


def _are_same(scale: Constant, other: Constant, columns: tuple[int, ...]) -> bool:
    """Whether two scales are the same for each column."""
    own, others = (np.broadcast_to(part.data, columns) for part in (scale, other))
    return other.type.dtype is f32 and np.array_equal(own, others)


def _fits_sums(bias: Constant, weight: Value) -> bool:
    """Whether sums of products of bytes, one for each weight of a result, can be added in i32."""
    depth = weight.type.size // max(1, bias.type.size)
    return bool(np.all(np.abs(bias.data.astype(np.int64)) < 2**31 - depth * 2**16))


RECOGNISE_QUANTIZED = RewritePass(
    "recognise-quantized", (recognise_conv, recognise_matmul, take_bias)
)
