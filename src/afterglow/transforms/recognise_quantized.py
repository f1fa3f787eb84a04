"""Recognise quantized ops that are written as ops on dequantized values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from afterglow.graph import Builder, Constant, Node, Value
from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import Add
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Reshape, Transpose
from afterglow.ops.pooling import MaxPool
from afterglow.ops.quantization import DequantizeLinear, QuantizeLinear
from afterglow.ops.quantized import QuantizedConv, QuantizedMatMul
from afterglow.passes import RewritePass, rewrite
from afterglow.transforms.matching.values import has_one_use
from afterglow.types.dtype import f32, i8, i32, u8

LEAST_SCALE, LARGEST_SCALE = 2.0**-100, 2.0**100
"""Scales between which quotients of small multiples are neither denormal nor infinite."""


@dataclass(frozen=True)
class Quantized:
    """(stored - zero point) scale: bytes with a constant scale, one number or one along an axis."""

    stored: Value
    scale: Constant
    zero_point: int
    axis: int

    @staticmethod
    def of(value: Value) -> Quantized | None:
        """What a value is dequantized from, if it is and has one zero point."""
        match value:
            case Value(
                Node(
                    DequantizeLinear(dtype=dtype, block_size=0) as op,
                    [Value() as stored, Constant() as scale, *rest],
                )
            ) if dtype is f32 and stored.type.dtype in (i8, u8) and scale.type.dtype is f32:
                zero_point = _zero_point(rest[0] if rest else None)
                if zero_point is not None and np.isfinite(scale.data).all():
                    rank = max(1, stored.type.rank)
                    return Quantized(stored, scale, zero_point, op.axis % rank)
        return None

    @property
    def has_one_scale(self) -> bool:
        """Whether the scale is one number."""
        return self.scale.type.rank == 0

    def fits_columns(self, axis: int) -> bool:
        """Whether the scale is one number, or one for each place along the axis."""
        return self.has_one_scale or self.axis == axis


def _zero_point(value: Value | None) -> int | None:
    """The number that a constant holds everywhere; 0 if it is not given."""
    if value is None:
        return 0
    if not isinstance(value, Constant) or not value.type.size:
        return None
    first = int(value.data.reshape(-1)[0])
    return first if bool(np.all(value.data == first)) else None


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
            if bias.type.shape != columns or _zero_point(rest[0] if rest else None) != 0:
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


@rewrite(QuantizeLinear)
def cancel_quantization(node: Node, b: Builder) -> Value | None:
    """quantize(dequantize(x, s, z), s, z)  ->  x:  a multiple of s is as far from z as before."""
    match node:
        case Node(
            QuantizeLinear(dtype=dtype, block_size=0), [Value() as x, Constant() as scale, *rest]
        ):
            source = Quantized.of(x)
            if source is None or source.stored.type.dtype is not dtype:
                return None
            same = source.has_one_scale and np.array_equal(source.scale.data, scale.data)
            ordinary = same and bool(LEAST_SCALE < abs(source.scale.data) < LARGEST_SCALE)
            if ordinary and _zero_point(rest[0] if rest else None) == source.zero_point:
                return source.stored
    return None


@rewrite(QuantizeLinear)
def quantize_before_moving(node: Node, b: Builder) -> Value | None:
    """quantize(move(x), s, z)  ->  move(quantize(x, s, z)),  s one number: bytes are moved."""
    match node:
        case Node(
            QuantizeLinear(block_size=0) as op,
            [Value(Node(Reshape() | Transpose() as move, [Value() as x])) as y, *parameters],
        ) if has_one_use(y) and all(p is None or p.type.rank == 0 for p in parameters):
            return b.emit(move, b.emit(op, x, *parameters))
    return None


@rewrite(Reshape, Transpose)
def dequantize_after_moving(node: Node, b: Builder) -> Value | None:
    """move(dequantize(x, s, z))  ->  dequantize(move(x), s, z),  s one number."""
    match node:
        case Node(
            Reshape() | Transpose() as move,
            [Value(Node(DequantizeLinear(block_size=0) as op, [Value() as x, *parameters])) as y],
        ) if has_one_use(y) and all(p is None or p.type.rank == 0 for p in parameters):
            return b.emit(op, b.emit(move, x), *parameters)
    return None


@rewrite(MaxPool)
def dequantize_after_pooling(node: Node, b: Builder) -> Value | None:
    """max_pool(dequantize(x, s, z))  ->  dequantize(max_pool(x), s, z),  s > 0 one number."""
    match node:
        case Node(MaxPool() as pool, [Value(Node(op, [_, *parameters])) as y]) if has_one_use(y):
            source = Quantized.of(y)
            if source is None or not source.has_one_scale or not source.scale.data > 0:
                return None
            return b.emit(op, b.emit(pool, source.stored), *parameters)
    return None


RECOGNISE_QUANTIZED = RewritePass(
    "recognise-quantized",
    (
        recognise_conv,
        recognise_matmul,
        take_bias,
        cancel_quantization,
        quantize_before_moving,
        dequantize_after_moving,
        dequantize_after_pooling,
    ),
)
