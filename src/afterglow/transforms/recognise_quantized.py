"""Recognise quantized ops that are written as ops on dequantized values.

Products of activations of 16 bits are two products of bytes: x is 256 times its high byte, which
has the sign, plus its low byte. The sums of both are exact in 32 bits.
"""

from __future__ import annotations

import numpy as np

from afterglow.graph import Builder, Constant, Node, Value
from afterglow.ops.conversion import Cast
from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import Add, Mul, Sub
from afterglow.ops.linear import MatMul
from afterglow.ops.quantization import DequantizeLinear
from afterglow.ops.quantized import QuantizedConv, QuantizedMatMul
from afterglow.passes import RewritePass, rewrite
from afterglow.transforms.matching.quantized import (
    BYTES,
    STORED_TYPES,
    Quantized,
    emit_high_bytes,
    emit_low_bytes,
    zero_point_of,
)
from afterglow.transforms.matching.values import has_one_use
from afterglow.types.dtype import f32, i16, i32


@rewrite(Conv)
def recognise_conv(node: Node, b: Builder) -> Value | None:
    """conv(dequantize(x), dequantize(w), c)  ->  quantized_conv(x, w) + c,  w a constant."""
    match node:
        case Node(Conv() as op, [Value() as x, Value() as weight, *rest]):
            lhs, rhs = Quantized.of(x, STORED_TYPES), Quantized.of(weight)
            if lhs is None or rhs is None or not isinstance(rhs.stored, Constant):
                return None
            if not lhs.has_one_scale or not rhs.fits_columns(0):
                return None
            integers = QuantizedConv(
                op.strides, op.pads, op.dilations, op.groups, lhs.zero_point, rhs.zero_point
            )
            return _emit_product(b, integers, lhs, rhs, rest[0] if rest else None)
    return None


@rewrite(MatMul)
def recognise_matmul(node: Node, b: Builder) -> Value | None:
    """matmul(dequantize(x), dequantize(y))  ->  quantized_matmul(x, y)."""
    match node:
        case Node(MatMul() as op, [Value() as x, Value() as y]):
            lhs, rhs = Quantized.of(x, STORED_TYPES), Quantized.of(y)
            if lhs is None or rhs is None:
                return None
            columns = y.type.rank - (2 if op.transpose_rhs else 1)
            if not lhs.has_one_scale or not rhs.fits_columns(columns):
                return None
            integers = QuantizedMatMul(
                op.transpose_lhs, op.transpose_rhs, lhs.zero_point, rhs.zero_point
            )
            return _emit_product(b, integers, lhs, rhs)
    return None


@rewrite(MatMul)
def widen_run_scaled_matmul(node: Node, b: Builder) -> Value | None:
    """matmul(dequantize(x, s, z), dequantize(w, t))  ->  matmul(i32(x) - i32(z), i32(w)) (s t).

    Of s, a number that the run computes, and w, a constant.
    """
    match node:
        case Node(
            MatMul(transpose_lhs=False) as op,
            [
                Value(
                    Node(
                        DequantizeLinear(dtype=dtype, block_size=0),
                        [Value() as x, Value() as scale, *rest],
                    )
                ),
                Value() as y,
            ],
        ) if dtype is f32 and x.type.dtype in BYTES and scale.type.shape == ():
            rhs = Quantized.of(y)
            zero = rest[0] if rest else None
            is_known = isinstance(scale, Constant) or (zero is not None and zero.type.rank)
            if is_known or rhs is None or not isinstance(rhs.stored, Constant):
                return None
            if y.type.rank != 2 or not rhs.fits_columns(0 if op.transpose_rhs else 1):
                return None
            weight = rhs.stored.data.astype(np.int32) - np.int32(rhs.zero_point)
            wide = b.emit(Cast(i32), x)
            if zero is not None:
                wide = b.emit(Sub(), wide, b.emit(Cast(i32), zero))
            sums = b.emit(op, wide, b.constant(weight, rhs.stored.name))
            return b.emit(Mul(), b.emit(Cast(f32), sums), b.emit(Mul(), scale, rhs.scale))
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


@rewrite(Add)
def add_bias_to_low_bytes(node: Node, b: Builder) -> Value | None:
    """(quantized(high, w) + quantized(low, w)) + c  ->  quantized(high, w) + (… + c)."""
    match node:
        case Node(
            Add(),
            [
                Value(
                    Node(
                        Add(),
                        [
                            Value(Node(op, [_, Constant() as weight, *_])) as high,
                            Value(Node(other, [_, Constant() as same, *_])) as low,
                        ],
                    )
                ) as total,
                Value(Node(DequantizeLinear(), [Constant(), *_])) as bias,
            ],
        ) if isinstance(op, (QuantizedConv, QuantizedMatMul)) and has_one_use(total):
            if op == other and weight is same:
                return b.emit(Add(), high, b.emit(Add(), low, bias))
    return None


def _emit_product(
    b: Builder,
    op: QuantizedConv | QuantizedMatMul,
    lhs: Quantized,
    rhs: Quantized,
    bias: Value | None = None,
) -> Value | None:
    """A product of integers, plus a bias; of 16 bits, one of high and one of low bytes."""
    scales = np.asarray(lhs.scale.data * rhs.scale.data)
    scale = b.constant(scales, f"{b.name}.scale")
    if lhs.stored.type.dtype is not i16:
        product = b.emit(op, lhs.stored, rhs.stored, scale)
        return product if bias is None else b.emit(Add(), product, bias)
    if lhs.zero_point:
        return None
    coarse = b.constant(scales * np.float32(256), f"{b.name}.scale")
    high = b.emit(op, emit_high_bytes(b, lhs.stored), rhs.stored, coarse)
    low = b.emit(op, emit_low_bytes(b, lhs.stored), rhs.stored, scale)
    return b.emit(Add(), high, low if bias is None else b.emit(Add(), low, bias))


def _are_same(scale: Constant, other: Constant, columns: tuple[int, ...]) -> bool:
    """Whether two scales are the same for each column."""
    own, others = (np.broadcast_to(part.data, columns) for part in (scale, other))
    return other.type.dtype is f32 and np.array_equal(own, others)


def _fits_sums(bias: Constant, weight: Value) -> bool:
    """Whether sums of products of bytes, one for each weight of a result, can be added in i32."""
    depth = weight.type.size // max(1, bias.type.size)
    return bool(np.all(np.abs(bias.data.astype(np.int64)) < 2**31 - depth * 2**16))


RECOGNISE_QUANTIZED = RewritePass(
    "recognise-quantized",
    (
        recognise_conv,
        recognise_matmul,
        widen_run_scaled_matmul,
        add_bias_to_low_bytes,
        take_bias,
    ),
)
