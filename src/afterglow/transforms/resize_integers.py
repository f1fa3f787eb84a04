"""Resample bytes rather than what they stand for, by weights that are integers."""

from __future__ import annotations

import numpy as np

from afterglow.graph import Builder, Constant, Node, Value
from afterglow.ops.image import Resize
from afterglow.ops.quantization import QuantizeLinear
from afterglow.passes import RewritePass, rewrite
from afterglow.transforms.matching.quantized import Quantized, zero_point_of
from afterglow.transforms.matching.values import has_one_use


@rewrite(QuantizeLinear)
def resize_bytes(node: Node, b: Builder) -> Value | None:
    """quantize(resize(dequantize(x, s, z)), s, z)  ->  resize(x),  results between elements of x.

    Weights sum to 1, so that the zero point stays. They are rounded, which may change a result by
    a step.
    """
    match node:
        case Node(
            QuantizeLinear(dtype=dtype, block_size=0),
            [Value(Node(Resize() as resize, [Value() as x])) as y, Constant() as scale, *rest],
        ) if resize.is_convex and has_one_use(y):
            source = Quantized.of(x)
            if source is None or not source.has_one_scale or source.stored.type.dtype is not dtype:
                return None
            same = np.array_equal(source.scale.data, scale.data)
            if same and zero_point_of(rest[0] if rest else None) == source.zero_point:
                return b.emit(resize, source.stored)
    return None


RESIZE_INTEGERS = RewritePass("resize-integers", (resize_bytes,))
