"""ONNX's ops that pick and put elements by index."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.movement import counts, index_tuples, integer_constant, reshaped
from afterglow.frontends.definition.context import Imported, NodeContext
from afterglow.frontends.definition.model import (
    BY_PLACES,
    MASKED,
    MASKED_ROWS,
    PICKED,
    ROWS_DOMAIN,
    WHOLE,
)
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.ops import elementwise as e
from afterglow.ops.indexing import (
    Gather,
    GatherElements,
    GatherND,
    Iota,
    ScatterND,
    ScatterReduction,
)
from afterglow.ops.lengths import CheckLengths
from afterglow.ops.movement import slice_axis
from afterglow.ops.rules import normal_axis
from afterglow.ops.scatter import ScatterElements
from afterglow.support.errors import ModelError
from afterglow.types.dtype import boolean, i64

_REDUCTIONS = {reduction.value: reduction for reduction in ScatterReduction}


@onnx_op("Gather")
def gather(n: NodeContext) -> Value:
    """Slices by index."""
    return n.emit(Gather(normal_axis(n.integer("axis", 0), n[0].type, "data")), n[0], n[1])


@onnx_op("GatherElements")
def gather_elements(n: NodeContext) -> Value:
    """Elements by index."""
    axis = normal_axis(n.integer("axis", 0), n[0].type, "data")
    return n.emit(GatherElements(axis), n[0], n[1])


@onnx_op("GatherND")
def gather_nd(n: NodeContext) -> Value:
    """Slices selected by index tuples."""
    return n.emit(GatherND(n.integer("batch_dims", 0)), n[0], n[1])


@onnx_op("Scatter", "ScatterElements")
def scatter_elements(n: NodeContext) -> Value:
    """Scatter is what version 9 called it."""
    axis = normal_axis(n.integer("axis", 0), n[0].type, "data")
    reduction = n.choice("reduction", _REDUCTIONS, "none")
    return n.emit(ScatterElements(axis, reduction), n[0], n[1], n[2])


@onnx_op("ScatterND")
def scatter_nd(n: NodeContext) -> Value:
    """Slices put in by index tuples."""
    return n.emit(ScatterND(n.choice("reduction", _REDUCTIONS, "none")), n[0], n[1], n[2])


@onnx_op(MASKED, domain=ROWS_DOMAIN)
def masked(n: NodeContext) -> Sequence[Imported | None]:
    """All elements by the mask, if shapes agree so that it makes no difference; else by places."""
    if not _agrees_as_whole(n):
        return n.inline(BY_PLACES)
    x, full, (new,) = n[0], n[3], n.inline(WHOLE)
    if not isinstance(new, Value) or new.type != x.type:
        return n.inline(BY_PLACES)
    ones = (1,) * (x.type.rank - full.type.rank)
    flags = as_dtype(n, reshaped(n, full, (*full.type.shape, *ones)), boolean)
    return [n.emit(e.Where(), flags, new, x)]


@onnx_op(MASKED_ROWS, domain=ROWS_DOMAIN)
def masked_rows(n: NodeContext) -> Sequence[Imported | None]:
    """Rows to the places where a mask holds, if there is one for each; else by other places."""
    x, mask, spread, full, places, rows = n.values()
    shape = (places.type.shape[0], *x.type.shape[mask.type.rank :])
    if not _is_mask_of(x, mask, spread, full) or rows.type.shape != shape:
        return n.inline(BY_PLACES)
    return [n.emit(ScatterND(), x, places, rows)]


def _agrees_as_whole(n: NodeContext) -> bool:
    """Whether each chosen element comes from its own place in tensors of one shape."""
    x, mask, spread, full, *others = n.values()
    picked = n.integer(PICKED)
    is_plain = not n.graph_attribute(WHOLE).node
    return (
        _is_mask_of(x, mask, spread, full)
        and all(each.type.shape == x.type.shape for each in others[:picked])
        and all(each.type.rank <= x.type.rank - mask.type.rank for each in others[picked:])
        and (is_plain or x.type.dtype.is_float)
    )


def _is_mask_of(x: Value, mask: Value, spread: Value, full: Value) -> bool:
    """Whether a mask is as long as x along its axes, and repeated along the others at most."""
    shape, ones = mask.type.shape, spread.type.rank - mask.type.rank
    return (
        shape == x.type.shape[: len(shape)]
        and spread.type.shape == (*shape, *[1] * ones)
        and full.type.shape in (shape, x.type.shape)
    )


@onnx_op("TensorScatter")
def tensor_scatter(n: NodeContext) -> Value:
    """Put an update into a cache, for each of a batch from its own index on.

    A scatter by tuples of the axes up to the one along which the cache is filled.
    """
    cache, update, starts = n[0], n[1], n.get(2)
    axis = normal_axis(n.integer("axis", -2), cache.type, "past_cache")
    shape = n.extents(update, cache.type.rank)[: axis + 1]
    places = counts(n, shape, axis)
    if starts is not None:
        starts = reshaped(n, starts, (shape[0], *[1] * axis))
        places = n.emit(e.Add(), places, starts)
    if n.text("mode", "linear") == "circular":
        places = n.emit(e.Mod(), places, integer_constant(n, cache.type.shape[axis]))
    outer = [counts(n, shape, at) for at in range(axis)]
    return n.emit(ScatterND(), cache, index_tuples(n, shape, [*outer, places]), update)


@onnx_op("ReverseSequence")
def reverse_sequence(n: NodeContext) -> Value:
    """Reverse the first elements of each row, as many as its length says."""
    x = n[0]
    batch, time = n.integer("batch_axis", 1), n.integer("time_axis", 0)
    if x.type.rank < 2 or {batch, time} != {0, 1}:
        raise ModelError(f"batch_axis and time_axis must be the first two of {x.type}")
    shape = x.type.shape[:2]
    extents = [1, 1]
    extents[batch] = shape[batch]
    lengths = reshaped(n, n.emit(CheckLengths(shape[time]), n[1]), extents)
    step = counts(n, shape, time)
    last = n.emit(e.Sub(), lengths, integer_constant(n, 1))
    mirrored = n.emit(e.Sub(), last, step)
    source = n.emit(e.Where(), n.emit(e.Less(), step, lengths), mirrored, step)
    tuples = [source, source]
    tuples[batch] = counts(n, shape, batch)
    return n.emit(GatherND(), x, index_tuples(n, shape, tuples))


@onnx_op("OneHot")
def one_hot(n: NodeContext) -> Value:
    """Whether the index is equal to the count along the new axis, as one of two values."""
    indices, values = as_dtype(n, n[0], i64), n[2]
    depth = n.known_extent(1)
    rank = indices.type.rank + 1
    axis = n.integer("axis", -1) % rank
    negative = n.emit(e.Less(), indices, integer_constant(n, 0))
    counted = n.emit(e.Add(), indices, integer_constant(n, depth))
    indices = n.emit(e.Where(), negative, counted, indices)
    shape = indices.type.shape
    indices = reshaped(n, indices, (*shape[:axis], 1, *shape[axis:]))
    extents = [1] * rank
    extents[axis] = depth
    hot = n.emit(e.Equal(), indices, n.emit(Iota(tuple(extents), axis, i64)))
    off, on = (reshaped(n, n.emit(slice_axis(values.type, 0, i, 1), values), ()) for i in (0, 1))
    return n.emit(e.Where(), hot, on, off)


@onnx_op("Trilu")
def trilu(n: NodeContext) -> Value:
    """The upper (column >= row + k) or lower triangle of x, with zeros elsewhere."""
    x = n[0]
    offset = n.known_extent(1) if n.get(1) is not None else 0
    if x.type.rank < 2:
        raise ModelError(f"input 0 must be matrices, it is {x.type}")
    shape = x.type.shape[-2:]
    row, column = counts(n, shape, 0), counts(n, shape, 1)
    diagonal = n.emit(e.Add(), row, integer_constant(n, offset))
    order = (diagonal, column) if n.integer("upper", 1) else (column, diagonal)
    zero = n.constant(np.zeros((), x.type.dtype.numpy))
    return n.emit(e.Where(), n.emit(e.LessEqual(), *order), x, zero)
