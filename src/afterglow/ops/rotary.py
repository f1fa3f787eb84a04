"""Rotary position embedding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterglow.graph import Builder, Op, Value, op
from afterglow.ops.elementwise import Add, Mul, Sub
from afterglow.ops.movement import Concat, Reshape, slice_axis
from afterglow.ops.rules import (
    require,
    require_float,
    require_rank,
    require_same_dtype,
    require_shape,
)
from afterglow.types import Array, TensorType


@op("rotary")
class Rotary(Op):
    """Pairs of elements of each head turned by angles whose cosines and sines are given.

    x is [tokens, heads, width], cos and sin are [tokens, pairs]. Elements that are turned are the
    first 2 * pairs of a head: element i with element i + pairs, or neighbours if interleaved.
    """

    interleaved: bool = False

    def infer(self, x: TensorType, cos: TensorType, sin: TensorType) -> TensorType:
        """The type of x."""
        require_float(x=x)
        require_same_dtype(x=x, cos=cos, sin=sin)
        require_rank(3, x=x)
        require_rank(2, cos=cos)
        tokens, _, width = x.shape
        require_shape((tokens, cos.shape[1]), cos=cos, sin=sin)
        require(2 * cos.shape[1] <= width, f"{cos} has more than half of the elements of {x}")
        return x

    def parallel(
        self, axis: int, result: TensorType, operands: Sequence[TensorType | None]
    ) -> tuple[int | None, ...] | None:
        """Tokens, and heads."""
        return None if axis == 2 else (axis, 0, 0) if axis == 0 else (axis, None, None)

    def evaluate(self, x: Array, cos: Array, sin: Array) -> Array:
        """(a, b) -> (a cos - b sin, b cos + a sin)."""
        pairs = cos.shape[1]
        first = slice(0, 2 * pairs, 2) if self.interleaved else slice(0, pairs)
        second = slice(1, 2 * pairs, 2) if self.interleaved else slice(pairs, 2 * pairs)
        cos, sin = cos[:, None], sin[:, None]
        out = np.array(x)
        out[..., first] = x[..., first] * cos - x[..., second] * sin
        out[..., second] = x[..., second] * cos + x[..., first] * sin
        return out

    def lower(self, b: Builder, x: Value, cos: Value, sin: Value) -> Value:
        """The elements of pairs side by side as two tensors, turned, and joined again."""
        tokens, heads, width = x.type.shape
        pairs, axis = cos.type.shape[1], 3 if self.interleaved else 2
        turned = b.emit(slice_axis(x.type, 2, 0, 2 * pairs), x) if 2 * pairs < width else x
        shape = (pairs, 2) if self.interleaved else (2, pairs)
        both = b.emit(Reshape((tokens, heads, *shape)), turned)
        first, second = (b.emit(slice_axis(both.type, axis, i, 1), both) for i in range(2))
        each = (pairs, 1) if self.interleaved else (1, pairs)
        cos, sin = (b.emit(Reshape((tokens, 1, *each)), angle) for angle in (cos, sin))
        left = b.emit(Sub(), b.emit(Mul(), first, cos), b.emit(Mul(), second, sin))
        right = b.emit(Add(), b.emit(Mul(), second, cos), b.emit(Mul(), first, sin))
        out = b.emit(Reshape((tokens, heads, 2 * pairs)), b.emit(Concat(axis), left, right))
        if 2 * pairs == width:
            return out
        rest = b.emit(slice_axis(x.type, 2, 2 * pairs, width - 2 * pairs), x)
        return b.emit(Concat(2), out, rest)
