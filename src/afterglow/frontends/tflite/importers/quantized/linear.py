"""TFLite's convolutions and matrix products of quantized integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from afterglow.frontends.common.movement import reshaped
from afterglow.frontends.tflite.importers.convolution import (
    conv_2d_of,
    depthwise_conv_2d_of,
    transpose_conv_of,
)
from afterglow.frontends.tflite.importers.linear import as_rows
from afterglow.frontends.tflite.importers.quantized.scaling import (
    above,
    activated,
    rescaled,
    rescaled_in_doubles,
    rescaled_wide,
    scale_of,
    scales_of,
    zero_point_of,
)
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import quantized_op
from afterglow.graph import Value
from afterglow.ops.conversion import Cast
from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import Add, Mul, ShiftRight, scalar
from afterglow.ops.quantized import QuantizedConv, QuantizedMatMul
from afterglow.support.errors import UnsupportedError
from afterglow.types import Array
from afterglow.types.dtype import i8, i16, i32, i64, u8

Product = Callable[[Value, int, Value | None], Value]
"""Sums of the products of a weight with bytes, less their zero point, plus a bias, in 32 bits."""


@quantized_op("CONV_2D")
def conv_2d(n: TfliteNode) -> Value:
    """One scale for each row of the weight, or one for all."""
    return _convolved(n, *conv_2d_of(n))


@quantized_op("DEPTHWISE_CONV_2D")
def depthwise_conv_2d(n: TfliteNode) -> Value:
    """The same, of one channel each."""
    return _convolved(n, *depthwise_conv_2d_of(n))


def _convolved(n: TfliteNode, conv: Conv, weight: Value) -> Value:
    """A convolution in integers, rescaled."""
    stored, shift = as_bytes(n, weight), zero_point_of(n.quantization(1))

    def product(x: Value, zero_point: int, bias: Value | None) -> Value:
        op = QuantizedConv(conv.strides, conv.pads, conv.dilations, conv.groups, zero_point, shift)
        return n.emit(op, x, stored, None, bias)

    return rescaled_sums(n, sums_of(n, n[0], n.get(2), product))


@quantized_op("TRANSPOSE_CONV")
def transpose_conv(n: TfliteNode) -> Value:
    """Operand 0 is the shape of the result, x is operand 2."""
    transposed, weight = transpose_conv_of(n)
    wide = above(n, weight, zero_point_of(n.quantization(1)))

    def product(x: Value, zero_point: int, bias: Value | None) -> Value:
        return n.emit(transposed, above(n, x, zero_point), wide, bias)

    return rescaled_sums(n, sums_of(n, n[2], n.get(3), product, 2), 2)


@quantized_op("BATCH_MATMUL")
def batch_matmul(n: TfliteNode) -> Value:
    """Of two operands that are both quantized."""
    left, right = (zero_point_of(n.quantization(index)) for index in (0, 1))
    if n[0].type.dtype is i16 or n[1].type.dtype is i16:
        raise UnsupportedError("products of two operands of 16 bits")
    op = QuantizedMatMul(n.flag("adj_x"), n.flag("adj_y"), left, right)
    sums, result = n.emit(op, n[0], n[1]), n.result_quantization()
    ratios = ratios_of(n, in_floats=True)
    return rescaled(n, sums, ratios, zero_point_of(result), n.result_type())


def rescaled_sums(n: TfliteNode, sums: Value, x: int = 0) -> Value:
    """Sums of products of operand x with operand 1 as the result of the node."""
    ratios = ratios_of(n, x, in_floats=n[x].type.dtype is u8)
    result, dtype = n.result_quantization(), n.result_type()
    if sums.type.dtype is i64:
        return activated(n, rescaled_wide(n, sums, ratios, dtype))
    return activated(n, rescaled(n, sums, ratios, zero_point_of(result), dtype))


@quantized_op("FULLY_CONNECTED")
def fully_connected(n: TfliteNode) -> Value:
    """Sums are scaled in doubles, but for those of u8."""
    x, (outputs, inner) = n[0], n.extents(n[1], 2)
    stored, shift = as_bytes(n, n[1]), zero_point_of(n.quantization(1))

    def product(x: Value, zero_point: int, bias: Value | None) -> Value:
        op = QuantizedMatMul(False, True, zero_point, shift)
        return n.emit(op, x, stored, None, bias)

    sums = sums_of(n, as_rows(n, x, inner), n.get(2), product)
    if x.type.dtype is u8:
        y = rescaled_sums(n, sums)
    else:
        zero_point = zero_point_of(n.result_quantization())
        scaled = rescaled_in_doubles(n, sums, ratios_of(n), zero_point, n.result_type())
        y = activated(n, scaled)
    return reshaped(n, y, (*x.type.shape[:-1], outputs)) if n.flag("keep_num_dims") else y


def ratios_of(n: TfliteNode, x: int = 0, *, in_floats: bool = False) -> Array:
    """The scales of sums of products over that of the result; u8 multiplies scales as floats."""
    scale, weight = scale_of(n.quantization(x)), scales_of(n.quantization(1))
    scales = (scale * weight).astype(np.float64) if in_floats else np.float64(scale) * weight
    ratios = scales / np.float64(scale_of(n.result_quantization()))
    return np.asarray(ratios[0] if len(ratios) == 1 else ratios)


def sums_of(n: TfliteNode, x: Value, bias: Value | None, product: Product, index: int = 0) -> Value:
    """Sums of products of x, operand `index`, in 32 bits; of 16 bits in 64, unless the bias has 32.

    Integers of 16 bits are 256 times their high bytes, which have the sign, plus the low ones.
    """
    if x.type.dtype is not i16:
        return product(x, zero_point_of(n.quantization(index)), bias)
    high = product(n.emit(Cast(i8), n.emit(ShiftRight(), x, scalar(n.builder, 8, x))), 0, None)
    low = product(n.emit(Cast(u8), x), 0, None)
    dtype = i32 if bias is not None and bias.type.dtype is i32 else i64
    high, low = n.emit(Cast(dtype), high), n.emit(Cast(dtype), low)
    sums = n.emit(Add(), n.emit(Mul(), high, scalar(n.builder, 256, high)), low)
    return sums if bias is None else n.emit(Add(), sums, bias)


def as_bytes(n: TfliteNode, weight: Value) -> Value:
    """Weights of fewer bits as bytes."""
    if weight.type.dtype in (i8, u8):
        return weight
    if weight.type.dtype.bits > i8.bits:
        raise UnsupportedError(f"weights of {weight.type.dtype.bits} bits")
    return n.emit(Cast(i8), weight)
