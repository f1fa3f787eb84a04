"""Average integers rather than what they stand for: their sums are exact in any order."""

from __future__ import annotations

import math

import numpy as np

from afterglow.graph import Builder, Node, Value
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Mul
from afterglow.ops.pooling import AvgPool
from afterglow.ops.quantization import DequantizeLinear
from afterglow.ops.reduction import ReduceMean, ReduceSum
from afterglow.passes import RewritePass, rewrite
from afterglow.transforms.matching.quantized import STORED_TYPES, Quantized
from afterglow.types.dtype import f32, i16, i32
from afterglow.types.extent import largest

EXACT = 2**24
"""Integers up to here are exact in f32: so are sums that stay below, whatever is added first."""
MOST_TERMS = 2**15
"""Integers of 16 bits whose sum has 32."""


@rewrite(AvgPool, ReduceMean)
def scale_after_averaging(node: Node, b: Builder) -> Value | None:
    """mean(dequantize(x, s, z))  ->  mean(dequantize(x, 1, z)) s,  s one number."""
    match node:
        case Node(AvgPool() | ReduceMean() as mean, [Value() as x]):
            source = Quantized.of(x, STORED_TYPES)
            if source is None or not source.has_one_scale or source.scale.data == 1:
                return None
            if _terms(mean, x) > EXACT // (2**source.stored.type.dtype.bits - 1):
                return _summed_in_integers(b, mean, source)
            one = b.constant(np.array(1, np.float32), "one")
            zero_point = np.array(source.zero_point, source.stored.type.dtype.numpy)
            zero = b.constant(zero_point, f"{b.name}.zero")
            integers = b.emit(DequantizeLinear(source.axis), source.stored, one, zero)
            return b.emit(Mul(), b.emit(mean, integers), source.scale)
    return None


def _summed_in_integers(b: Builder, mean: AvgPool | ReduceMean, source: Quantized) -> Value | None:
    """mean(dequantize(x, s))  ->  sum(x) (s / n),  x of 16 bits, the sum of 32."""
    x = source.stored
    if isinstance(mean, AvgPool) or x.type.dtype is not i16 or source.zero_point:
        return None
    if x.type.is_ranged or _terms(mean, x) >= MOST_TERMS:
        return None
    total = b.emit(ReduceSum(mean.axes, mean.keepdims), b.emit(Cast(i32), x))
    factor = b.constant(source.scale.data / np.float32(_terms(mean, x)), f"{b.name}.scale")
    return b.emit(Mul(), b.emit(Cast(f32), total), factor)


def _terms(mean: AvgPool | ReduceMean, x: Value) -> int:
    """How many numbers one mean is of, at most."""
    if isinstance(mean, AvgPool):
        return math.prod(mean.kernel)
    return math.prod(largest(x.type.shape[axis]) for axis in mean.axes)


AVERAGE_INTEGERS = RewritePass("average-integers", (scale_after_averaging,))
