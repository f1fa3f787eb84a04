"""Moving, repeating and counting elements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from afterglow.frontends.definition.context import NodeContext
from afterglow.graph import Value
from afterglow.ops.indexing import Iota
from afterglow.ops.movement import Concat, Expand, Pad, PadMode, Reshape, Slice, slice_axis
from afterglow.support.errors import ModelError
from afterglow.types.dtype import i64
from afterglow.types.extent import is_ranged, larger_extent, smaller_extent


def reshaped(n: NodeContext, x: Value, shape: Sequence[int]) -> Value:
    """The same elements under another shape; x itself if it has that one."""
    return x if x.type.shape == tuple(shape) else n.emit(Reshape(tuple(shape)), x)


def expanded(n: NodeContext, x: Value, shape: Sequence[int]) -> Value:
    """x repeated to a shape; x itself if it has that one."""
    return x if x.type.shape == tuple(shape) else n.emit(Expand(tuple(shape)), x)


def number_like(n: NodeContext, value: float, like: Value) -> Value:
    """A number as a constant without axes, of the element type of another value."""
    return n.constant(np.array(value, like.type.dtype.numpy))


def integer_constant(n: NodeContext, number: int) -> Value:
    """A rank-0 i64, which may be a ranged extent."""
    if not i64.limits[0] <= number <= i64.limits[1]:
        raise ModelError(f"{number} does not fit into 64 bits")
    return n.integers_of((number,), ())


def split_along(n: NodeContext, x: Value, axis: int, lengths: Sequence[int]) -> list[Value]:
    """Consecutive slices of these lengths."""
    if sum(lengths) != x.type.shape[axis]:
        raise n.fail(f"parts of {tuple(lengths)} do not make up axis {axis} of {x.type}")
    starts = accumulate(lengths, initial=0)
    return [
        n.emit(slice_axis(x.type, axis, start, length), x)
        for start, length in zip(starts, lengths, strict=False)
    ]


def counts(n: NodeContext, shape: Sequence[int], axis: int) -> Value:
    """0, 1, 2 … along an axis, extent 1 along the others."""
    extents = [1] * len(shape)
    extents[axis] = shape[axis]
    return n.emit(Iota(tuple(extents), axis, i64))


def index_tuples(n: NodeContext, shape: Sequence[int], parts: Sequence[Value]) -> Value:
    """Index tuples of parts that broadcast to `shape`."""
    columns = [reshaped(n, n.emit(Expand(tuple(shape)), part), (*shape, 1)) for part in parts]
    return n.emit(Concat(len(shape)), *columns)


def padded(
    n: NodeContext,
    x: Value,
    before: Sequence[int],
    after: Sequence[int],
    mode: PadMode = PadMode.CONSTANT,
    value: Value | None = None,
) -> Value:
    """Cut where counts are negative, then pad."""
    cut = tuple(larger_extent(0, -amount) for amount in before)
    kept = tuple(
        larger_extent(0, extent + smaller_extent(0, b) + smaller_extent(0, a))
        for extent, b, a in zip(x.type.shape, before, after, strict=True)
    )
    if kept != x.type.shape:
        x = n.emit(Slice(cut, kept, (1,) * x.type.rank), x)
    first, last = (tuple(larger_extent(0, c) for c in counts) for counts in (before, after))
    if not any(is_ranged(count) or count for count in (*first, *last)):
        return x
    return n.emit(Pad(first, last, mode), x, value if mode is PadMode.CONSTANT else None)
