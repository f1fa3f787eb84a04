"""TFLite's pooling and reductions of quantized integers."""

from __future__ import annotations

import math

import numpy as np

from afterglow.frontends.tflite.importers.pooling import pool_windows
from afterglow.frontends.tflite.importers.quantized.scaling import (
    activated,
    multipliers,
    rescaled_by,
    scale_of,
    zero_point_of,
)
from afterglow.frontends.tflite.importers.reduction import reduced
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import quantized_op
from afterglow.graph import Value
from afterglow.ops.conversion import Cast
from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import Add, Div, Less, Sub, Where, scalar
from afterglow.ops.pooling import AvgPool, MaxPool
from afterglow.ops.quantized import QuantizedConv
from afterglow.ops.reduction import ReduceMax, ReduceMin, ReduceSum
from afterglow.types import Array, DType
from afterglow.types.dtype import f32, f64, i16, i32


@quantized_op("MAX_POOL_2D")
def max_pool(n: TfliteNode) -> Value:
    """The largest integer of each window."""
    w = pool_windows(n)
    return activated(n, n.emit(MaxPool(w.kernel, w.strides, w.pads, w.dilations), n[0]))


@quantized_op("AVERAGE_POOL_2D")
def average_pool(n: TfliteNode) -> Value:
    """The sum of each window by the count of its elements, rounded with halves away from zero."""
    x, w = n[0], pool_windows(n)
    pool = AvgPool(w.kernel, w.strides, w.pads, w.dilations)
    counts = pool.divisors(x.type.shape[1:-1])
    sums = _window_sums(n, pool)
    return activated(n, _quotient(n, sums, np.asarray(counts, np.int64), x.type.dtype))


def _window_sums(n: TfliteNode, pool: AvgPool) -> Value:
    """The sum of each window in 32 bits: a convolution of each channel with ones."""
    x = n[0]
    channels = x.type.shape[-1]
    ones = np.ones((channels, *pool.kernel, 1), np.int8)
    if x.type.dtype is not i16:
        op = QuantizedConv(pool.strides, pool.pads, pool.dilations, channels)
        return n.emit(op, x, n.constant(ones))
    conv = Conv(pool.strides, pool.pads, pool.dilations, channels)
    return n.emit(conv, n.emit(Cast(i32), x), n.constant(ones.astype(np.int32)))


def _quotient(n: TfliteNode, sums: Value, counts: Array, dtype: DType) -> Value:
    """Sums by counts, rounded with halves away from zero; as floats, which are exact enough.

    The fraction of a quotient is a multiple of one by the count: no rounding reaches the next whole
    number.
    """
    if (counts == counts.flat[0]).all():
        counts = np.array(counts.flat[0])
    half = n.constant((counts // 2).astype(np.int32))
    down = n.emit(Sub(), sums, half)
    is_negative = n.emit(Less(), sums, scalar(n.builder, 0, sums))
    moved = n.emit(Where(), is_negative, down, n.emit(Add(), sums, half))
    wide = f32 if int(counts.max()) << dtype.bits <= 1 << 24 else f64
    quotient = n.emit(Div(), n.emit(Cast(wide), moved), n.constant(counts.astype(wide.numpy)))
    return n.emit(Cast(dtype), quotient)


@quantized_op("MEAN", "SUM")
def mean(n: TfliteNode) -> Value:
    """The sum, by a multiplier that divides by the count as well."""
    x, result = n[0], n.result_quantization()
    axes = n.axes(1, x.type.rank)
    count = math.prod(x.type.shape[axis] for axis in axes)
    total = reduced(n, ReduceSum, n.emit(Cast(i32), x))
    shift = zero_point_of(n.quantization(0)) * count
    if shift:
        total = n.emit(Sub(), total, scalar(n.builder, shift, total))
    ratio = float(scale_of(n.quantization(0))) / float(scale_of(result))
    factor, exponent = (int(part) for part in multipliers(ratio))
    if n.proto.op_type == "MEAN":
        bits = min(count.bit_length() - 1, 32, 31 + exponent)
        factor, exponent = (factor << bits) // count, exponent - bits
    parts = np.array(factor, np.int32), np.array(exponent, np.int32)
    return rescaled_by(n, total, *parts, zero_point_of(result), n.result_type())


@quantized_op("REDUCE_MAX", "REDUCE_MIN")
def extremes(n: TfliteNode) -> Value:
    """Of integers as they are: both have one scale."""
    return reduced(n, ReduceMax if n.proto.op_type == "REDUCE_MAX" else ReduceMin, n[0])
