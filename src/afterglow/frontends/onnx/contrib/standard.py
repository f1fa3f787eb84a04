"""The com.microsoft domain: ops that the standard has too, or had, or could have."""

from __future__ import annotations

import numpy as np

from afterglow.frontends.common.layout import to_channels_first, to_channels_last
from afterglow.frontends.common.movement import integer_constant, reshaped
from afterglow.frontends.common.moving import moving_range
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.contrib.fused import MICROSOFT
from afterglow.frontends.onnx.importers.image import grid_sample
from afterglow.frontends.onnx.importers.indexing import gather_nd, trilu
from afterglow.frontends.onnx.importers.movement import pad_inputs
from afterglow.frontends.onnx.importers.pooling import max_pool
from afterglow.frontends.onnx.registry import Results, onnx_op
from afterglow.graph import Value
from afterglow.ops import elementwise as e
from afterglow.ops.functions import Sqrt
from afterglow.ops.indexing import GatherElements, Iota
from afterglow.ops.movement import Concat, Expand, slice_axis
from afterglow.ops.reduction import ReduceSum
from afterglow.ops.search import ArgMax
from afterglow.support.errors import ModelError
from afterglow.types import dtype as d

onnx_op("GatherND", domain=MICROSOFT)(gather_nd)
onnx_op("GridSample", domain=MICROSOFT)(grid_sample)
onnx_op("Trilu", domain=MICROSOFT)(trilu)


@onnx_op("ExpandDims", domain=MICROSOFT)
def expand_dims(n: NodeContext) -> Value:
    """Insert an axis of extent 1."""
    x, (axis,) = n[0], n.known_ints(1)
    axis %= x.type.rank + 1
    return reshaped(n, x, (*x.type.shape[:axis], 1, *x.type.shape[axis:]))


@onnx_op("Pad", domain=MICROSOFT)
def pad(n: NodeContext) -> Results:
    """Padding; the numbers of elements may be a row of a matrix."""
    counts = n[1]
    return pad_inputs(n.with_operands(n[0], reshaped(n, counts, (counts.type.size,)), n.get(2)))


@onnx_op("Range", domain=MICROSOFT)
def value_range(n: NodeContext) -> Value:
    """A range of numbers; the step is optional and 1 by default."""
    delta = np.ones((), np.int64) if n.get(2) is None else n.value_if_known(n[2])
    moving = moving_range(n, n[0], n[1], delta)
    if moving is not None:
        return moving
    start, limit = (n.known_number(i) for i in range(2))
    step = n.known_number(2) if n.get(2) is not None else 1
    if not step:
        raise ModelError("a range needs a step other than 0")
    return n.constant(np.arange(start, limit, step).astype(n[0].type.dtype.numpy))


@onnx_op("Unique", domain=MICROSOFT)
def unique(n: NodeContext) -> tuple[Value, ...]:
    """The distinct elements of x in order of appearance, the index of each, and the counts."""
    x = n.known(0).reshape(-1)
    _, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(first)
    places = np.argsort(order)[inverse.reshape(-1)]
    found = (x[first[order]], places.astype(np.int64), counts[order].astype(np.int64))
    return tuple(n.constant(array) for array in found)


@onnx_op("CDist", domain=MICROSOFT)
def distances(n: NodeContext) -> Value:
    """Distance between each row of one matrix and each row of another, squared or not."""
    metric = n.text("metric", "sqeuclidean")
    if metric not in ("euclidean", "sqeuclidean"):
        raise n.fail(f"the metric {metric!r} is not supported")
    (rows, width), (columns, _) = n[0].type.shape, n[1].type.shape
    one, other = reshaped(n, n[0], (rows, 1, width)), reshaped(n, n[1], (1, columns, width))
    apart = n.emit(e.Sub(), one, other)
    squared = n.emit(ReduceSum((2,), False), n.emit(e.Mul(), apart, apart))
    return n.emit(Sqrt(), squared) if metric == "euclidean" else squared


@onnx_op("NhwcMaxPool", domain=MICROSOFT)
def max_pool_of_last_channels(n: NodeContext) -> Value:
    """Max pooling of channels-last data."""
    first = to_channels_first(n, n[0])
    pooled = max_pool(n.with_operands(first))
    assert isinstance(pooled, Value)
    return to_channels_last(n, pooled)


@onnx_op("Inverse", domain=MICROSOFT)
def inverse(n: NodeContext) -> Value:
    """Inverse of each square matrix in the last two axes, by Gauss-Jordan elimination."""
    x = n[0]
    if x.type.rank < 2 or x.type.shape[-1] != x.type.shape[-2]:
        raise ModelError(f"only square matrices have an inverse, got {x.type}")
    size, axis = x.type.shape[-1], x.type.rank - 1
    unit = n.emit(Expand(x.type.shape), n.constant(np.eye(size, dtype=x.type.dtype.numpy)))
    both = n.emit(Concat(axis), x, unit)
    for column in range(size):
        both = _eliminated(n, both, column)
    return n.emit(slice_axis(both.type, axis, size, size), both)


def _eliminated(n: NodeContext, x: Value, column: int) -> Value:
    """Rows exchanged and added so that a column has 1 in its own row, and 0 in the others."""
    rank, size = x.type.rank, x.type.shape[-2]
    rows = n.emit(Iota((size, 1), 0, d.i64))
    own = integer_constant(n, column)
    first = n.emit(slice_axis(x.type, rank - 1, column, 1), x)
    lowest = e.scalar(n.builder, -1, x)
    is_left = n.emit(e.LessEqual(), own, rows)
    sizes = n.emit(e.Where(), is_left, n.emit(e.Abs(), first), lowest)
    best = n.emit(ArgMax(rank - 2), sizes)
    swapped = n.emit(e.Where(), n.emit(e.Equal(), rows, best), own, rows)
    swapped = n.emit(e.Where(), n.emit(e.Equal(), rows, own), best, swapped)
    x = n.emit(GatherElements(rank - 2), x, n.emit(Expand(x.type.shape), swapped))
    row = n.emit(slice_axis(x.type, rank - 2, column, 1), x)
    scaled = n.emit(e.Div(), row, n.emit(slice_axis(row.type, rank - 1, column, 1), row))
    factors = n.emit(slice_axis(x.type, rank - 1, column, 1), x)
    rest = n.emit(e.Sub(), x, n.emit(e.Mul(), factors, scaled))
    return n.emit(e.Where(), n.emit(e.Equal(), rows, own), scaled, rest)
