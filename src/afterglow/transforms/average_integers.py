"""Average integers rather than what they stand for: their sums are exact in any order."""

from __future__ import annotations

import math

import numpy as np

from afterglow.graph import Builder, Node, Value
from afterglow.ops.elementwise import Mul
from afterglow.ops.pooling import AvgPool
from afterglow.ops.quantization import DequantizeLinear
from afterglow.ops.reduction import ReduceMean
from afterglow.passes import RewritePass, rewrite
from afterglow.transforms.matching.quantized import Quantized
from afterglow.types.extent import largest

MOST_TERMS = 2**24 // 255
"""Differences of bytes whose sum is exact in f32, whatever is added first."""


@rewrite(AvgPool, ReduceMean)
def scale_after_averaging(node: Node, b: Builder) -> Value | None:
    """mean(dequantize(x, s, z))  ->  mean(dequantize(x, 1, z)) s,  s one number."""
    match node:
        case Node(AvgPool() | ReduceMean() as mean, [Value() as x]):
            source = Quantized.of(x)
            if source is None or not source.has_one_scale or source.scale.data == 1:
                return None
            if _terms(mean, x) > MOST_TERMS:
                return None
            one = b.constant(np.array(1, np.float32), "one")
            zero_point = np.array(source.zero_point, source.stored.type.dtype.numpy)
            zero = b.constant(zero_point, f"{b.name}.zero")
            integers = b.emit(DequantizeLinear(source.axis), source.stored, one, zero)
            return b.emit(Mul(), b.emit(mean, integers), source.scale)
    return None


def _terms(mean: AvgPool | ReduceMean, x: Value) -> int:
    """How many numbers one mean is of, at most."""
    if isinstance(mean, AvgPool):
        return math.prod(mean.kernel)
    return math.prod(largest(x.type.shape[axis]) for axis in mean.axes)


AVERAGE_INTEGERS = RewritePass("average-integers", (scale_after_averaging,))
