"""TFLite's ops that move quantized integers, where these stand for zero or change their scales."""

from __future__ import annotations

import numpy as np

from afterglow.frontends.tflite.importers.movement import padded
from afterglow.frontends.tflite.importers.quantized.scaling import (
    activated,
    rounded_away,
    scale_of,
    zero_point_of,
)
from afterglow.frontends.tflite.importers.reduction import arg, top_k
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import quantized_op
from afterglow.graph import Value
from afterglow.ops.activation import Clip
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, Mul, scalar
from afterglow.ops.movement import Concat, Reshape
from afterglow.types.dtype import f32, u8

quantized_op("ARG_MAX", "ARG_MIN")(arg)
quantized_op("TOPK_V2")(top_k)


@quantized_op("PAD")
def pad(n: TfliteNode) -> Value:
    """With what stands for zero."""
    return padded(n, n.full(zero_point_of(n.result_quantization()), n[0].type.dtype))


@quantized_op("PADV2")
def pad_v2(n: TfliteNode) -> Value:
    """With an operand of the same scale."""
    return padded(n, n.emit(Reshape(()), n[2]))


@quantized_op("CONCATENATION")
def concatenation(n: TfliteNode) -> Value:
    """As they are; u8 with other scales than that of the result are rescaled, in floats."""
    axis = n.axis(n.count("axis"), n[0].type.rank)
    parts = [_with_scale(n, index, x) for index, x in enumerate(n.values())]
    return activated(n, n.emit(Concat(axis), *parts))


def _with_scale(n: TfliteNode, index: int, x: Value) -> Value:
    """An operand with the scale of the result."""
    given, result = n.quantization(index), n.result_quantization()
    if x.type.dtype is not u8 or given is None or result is None:
        return x
    point = zero_point_of(result)
    if scale_of(given) == scale_of(result) and zero_point_of(given) == point:
        return x
    ratio = scale_of(given) * (np.float32(1) / scale_of(result))
    bias = np.float32(-zero_point_of(given)) * ratio
    wide = n.emit(Cast(f32), x)
    product = n.emit(Mul(), wide, scalar(n.builder, float(ratio), wide))
    moved = n.emit(Add(), product, scalar(n.builder, float(bias), wide))
    whole = rounded_away(n, n.emit(Clip(-65536.0, 65536.0), moved))
    total = n.emit(Add(), whole, scalar(n.builder, point, whole))
    return n.emit(Cast(u8), n.emit(Clip(0, 255), total))
