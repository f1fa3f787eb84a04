"""TFLite's conversions between real numbers and quantized integers, and between scales."""

from __future__ import annotations

import numpy as np

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.tflite.elements import Quantization
from afterglow.frontends.tflite.importers.quantized.scaling import (
    difference,
    rescaled,
    rounded_away,
    scale_of,
    scales_of,
    zero_point_of,
)
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import quantized_op
from afterglow.graph import Value
from afterglow.ops.activation import Clip
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, Div
from afterglow.ops.quantization import DequantizeLinear
from afterglow.support.errors import ModelError
from afterglow.types import Array, DType
from afterglow.types.dtype import f32


@quantized_op("QUANTIZE")
def quantize(n: TfliteNode) -> Value:
    """Of real numbers, or of integers with another scale."""
    x, result, dtype = n[0], n.result_quantization(), n.result_type()
    if not x.type.dtype.is_float:
        ratio = float(scale_of(n.quantization(0))) / float(scale_of(result))
        return rescaled(n, difference(n, 0), ratio, zero_point_of(result), dtype)
    points = _along(result, x.type.rank, np.array(result.zero_points if result else (0,)))
    steps = n.emit(Div(), as_dtype(n, x, f32), n.constant(_along(result, x.type.rank)))
    return _stored(n, steps, points, dtype)


def _stored(n: TfliteNode, steps: Value, points: Array, dtype: DType) -> Value:
    """Steps, rounded with halves away from zero, plus zero points, saturated."""
    least, most = map(int, dtype.limits)
    reach = float(most - least)
    whole = rounded_away(n, n.emit(Clip(-reach, reach), steps))
    moved = n.emit(Add(), whole, n.constant(points.astype(np.int32)))
    return n.emit(Cast(dtype), n.emit(Clip(least, most), moved))


def _along(quantization: Quantization | None, rank: int, numbers: Array | None = None) -> Array:
    """Scales, or other numbers of channels, shaped so that they broadcast."""
    given = scales_of(quantization) if numbers is None else numbers
    if len(given) == 1 or quantization is None:
        return np.asarray(given[0])
    return given.reshape([-1 if axis == quantization.axis else 1 for axis in range(rank)])


@quantized_op("DEQUANTIZE")
def dequantize(n: TfliteNode) -> Value:
    """The differences from zero points, times scales."""
    return as_dtype(n, dequantized(n, n[0], n.quantization(0)), n.result_type())


def dequantized(n: TfliteNode, x: Value, quantization: Quantization | None) -> Value:
    """The real numbers that integers stand for."""
    scales = scales_of(quantization)
    assert quantization is not None
    points = np.array(quantization.zero_points or (0,))
    least, most = x.type.dtype.limits
    if ((points < least) | (points > most)).any():
        raise ModelError(f"a zero point must be one of {x.type.dtype}, they are {points.tolist()}")
    if len(scales) == 1:
        scale, point = np.asarray(scales[0]), np.asarray(points[0])
    else:
        scale, point = scales, np.broadcast_to(points, scales.shape)
    shift = n.constant(point.astype(x.type.dtype.numpy)) if point.any() else None
    return n.emit(DequantizeLinear(quantization.axis, f32), x, n.constant(scale), shift)
