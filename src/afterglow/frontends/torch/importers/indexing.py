"""Indexing with tensors, as PyTorch does."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.movement import counts, expanded, index_tuples, reshaped
from afterglow.frontends.torch.importers.movement import transposed
from afterglow.frontends.torch.importers.operands import axis_of, number, operand
from afterglow.frontends.torch.node import TorchNode
from afterglow.frontends.torch.registry import aten
from afterglow.graph import Value
from afterglow.ops import elementwise as e
from afterglow.ops.indexing import Gather, GatherElements, GatherND, ScatterND, ScatterReduction
from afterglow.ops.reduction import CumSum
from afterglow.ops.rules import broadcast_shape
from afterglow.support.errors import ModelError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import boolean, i32, i64, u8


@dataclass(frozen=True)
class _Places:
    """Index tensors for some axes of a tensor, all of one shape."""

    axes: tuple[int, ...]
    indices: tuple[Value, ...]
    shape: tuple[int, ...]

    @property
    def front(self) -> int:
        """How many axes stay in front of those of the indices."""
        first = self.axes[0]
        return first if self.axes == tuple(range(first, first + len(self.axes))) else 0

    def perm(self, rank: int) -> list[int]:
        """The order of a tensor's axes in which the indexed ones come first."""
        return [*self.axes, *(axis for axis in range(rank) if axis not in self.axes)]

    def result_perm(self, rank: int) -> list[int]:
        """How the axes of the picked elements go where PyTorch has them."""
        new, front = len(self.shape), self.front
        rest = rank - len(self.axes)
        return [*range(new, new + front), *range(new), *range(new + front, new + rest)]


def _places(n: TorchNode, x: Value, given: Sequence[Value | None]) -> _Places | None:
    """Index tensors by axis: booleans become the places where they hold."""
    axes: list[int] = []
    indices: list[Value] = []
    at = 0
    for index in given:
        if index is None:
            at += 1
        elif index.type.dtype in (boolean, u8):
            found = np.nonzero(n.value_of(index)) if index.type.rank else ()
            if not index.type.rank:
                raise n.fail("an index that is one truth value is not supported")
            for places in found:
                axes.append(at)
                indices.append(n.constant(places.astype(np.int64)))
                at += 1
        else:
            axes.append(at)
            indices.append(as_dtype(n, index, i64))
            at += 1
    if not axes:
        return None
    shape = broadcast_shape(**{f"index {k}": index.type for k, index in enumerate(indices)})
    wide = tuple(expanded(n, index, shape) for index in indices)
    return _Places(tuple(axes), wide, shape)


@aten("index.Tensor", "_unsafe_index.Tensor")
def index(n: TorchNode) -> Value:
    """Elements picked by index tensors, which stand for axes in turn; None keeps an axis."""
    x = n.value("self")
    places = _places(n, x, n.tensors("indices"))
    return x if places is None else picked(n, x, places)


def picked(n: TorchNode, x: Value, places: _Places) -> Value:
    """One index is a gather along its axis; several are tuples."""
    if len(places.axes) == 1:
        return n.emit(Gather(places.axes[0]), x, places.indices[0])
    rank = x.type.rank
    first = transposed(n, x, places.perm(rank))
    tuples = index_tuples(n, places.shape, places.indices)
    return transposed(n, n.emit(GatherND(), first, tuples), places.result_perm(rank))


@aten("index_put", "_unsafe_index_put", "index_put_")
def index_put(n: TorchNode) -> Value:
    """Elements replaced, or added to, at index tensors."""
    x, given = n.value("self"), n.tensors("indices")
    values = as_dtype(n, n.value("values"), x.type.dtype)
    masked = None if n.flag("accumulate") else _masked_put(n, x, given, values)
    if masked is not None:
        return masked
    places = _places(n, x, given)
    if places is None:
        whole = expanded(n, values, x.type.shape)
        return n.emit(e.Add(), x, whole) if n.flag("accumulate") else whole
    return put(n, x, places, values, accumulate=n.flag("accumulate"))


def _masked_put(
    n: TorchNode, x: Value, given: Sequence[Value | None], values: Value
) -> Value | None:
    """One value for all places where a mask holds: a choice; None if it is another case."""
    if len(given) != 1 or given[0] is None or given[0].type.dtype is not boolean:
        return None
    mask = given[0]
    inner = x.type.rank - mask.type.rank
    if values.type.rank > inner and (values.type.rank != inner + 1 or values.type.shape[0] != 1):
        return None
    mask = reshaped(n, mask, (*mask.type.shape, *(1,) * inner))
    shape = values.type.shape[values.type.rank - inner :] if values.type.rank > inner else None
    values = values if shape is None else reshaped(n, values, shape)
    return n.emit(e.Where(), mask, expanded(n, values, x.type.shape), x)


def put(n: TorchNode, x: Value, places: _Places, values: Value, *, accumulate: bool) -> Value:
    """x with values at places."""
    rank = x.type.rank
    perm, back = places.perm(rank), places.result_perm(rank)
    rest = [x.type.shape[axis] for axis in perm[len(places.axes) :]]
    shape = [*places.shape, *rest]
    values = expanded(n, values, [shape[axis] for axis in back])
    values = transposed(n, values, [back.index(axis) for axis in range(len(back))])
    dtype = x.type.dtype
    data, wide = transposed(n, x, perm), dtype is boolean
    if wide:
        data, values = as_dtype(n, data, i32), as_dtype(n, values, i32)
    reduction = ScatterReduction.ADD if accumulate else ScatterReduction.NONE
    tuples = index_tuples(n, places.shape, places.indices)
    found = as_dtype(n, n.emit(ScatterND(reduction), data, tuples, values), dtype)
    return transposed(n, found, [perm.index(axis) for axis in range(rank)])


@aten("index_select", "index_select_copy")
def index_select(n: TorchNode) -> Value:
    """Slices along an axis."""
    x, index = n.value("self"), n.value("index")
    if not x.type.rank:
        return x
    index = reshaped(n, index, (index.type.size,))
    return n.emit(Gather(axis_of(n, "dim", x.type.rank)), x, index)


@aten("take")
def take(n: TorchNode) -> Value:
    """Elements by their places in the flattened tensor."""
    x = n.value("self")
    return n.emit(Gather(0), reshaped(n, x, (x.type.size,)), n.value("index"))


@aten("put")
def put_flat(n: TorchNode) -> Value:
    """Elements replaced by their places in the flattened tensor."""
    x, index = n.value("self"), n.value("index")
    size = index.type.size
    places = _Places((0,), (reshaped(n, index, (size,)),), (size,))
    source = reshaped(n, as_dtype(n, n.value("source"), x.type.dtype), (size,))
    flat = reshaped(n, x, (x.type.size,))
    return reshaped(n, put(n, flat, places, source, accumulate=n.flag("accumulate")), x.type.shape)


@aten("gather")
def gather(n: TorchNode) -> Value:
    """Single elements: the index replaces the position along the axis."""
    x, index = n.value("self"), n.value("index")
    rank = max(x.type.rank, 1)
    axis = axis_of(n, "dim", rank)
    if not x.type.rank or not index.type.rank:
        x = reshaped(n, x, x.type.shape or (1,))
        shape = index.type.shape
        index = reshaped(n, index, shape or (1,) * rank)
        return reshaped(n, n.emit(GatherElements(axis), x, index), shape)
    if 0 in index.type.shape:
        return n.constant(np.zeros(index.type.shape, x.type.dtype.numpy))
    return n.emit(GatherElements(axis), x, index)


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(n: TorchNode) -> Value:
    """One value where a mask holds."""
    x = n.value("self")
    mask = as_dtype(n, n.value("mask"), boolean)
    return n.emit(e.Where(), mask, operand(n, "value", x.type.dtype), x)


@aten("masked_select")
def masked_select(n: TorchNode) -> Value:
    """The data decides how many there are."""
    x, mask = n.value("self"), n.value("mask")
    shape = broadcast_shape(self=x.type, mask=mask.type)
    places = np.flatnonzero(np.broadcast_to(n.value_of(mask), shape))
    flat = reshaped(n, expanded(n, x, shape), (math.prod(shape),))
    return n.emit(Gather(0), flat, n.constant(places))


@aten("masked_scatter")
def masked_scatter(n: TorchNode) -> Value:
    """Where a mask holds, the elements of `source` in turn."""
    x, mask = n.value("self"), n.value("mask")
    shape = broadcast_shape(self=x.type, mask=mask.type)
    x, mask = expanded(n, x, shape), expanded(n, mask, shape)
    source = n.value("source")
    if 0 in shape or 0 in source.type.shape:
        return x
    held = as_dtype(n, reshaped(n, mask, (math.prod(shape),)), i64)
    turn = n.emit(e.Sub(), n.emit(CumSum(0), held), number(n, 1, i64))
    last = number(n, source.type.size - 1, i64)
    turn = n.emit(e.Min(), n.emit(e.Max(), turn, number(n, 0, i64)), last)
    picked_ones = n.emit(Gather(0), reshaped(n, source, (source.type.size,)), turn)
    return n.emit(e.Where(), mask, reshaped(n, picked_ones, shape), x)


@aten("nonzero")
def nonzero(n: TorchNode) -> Value:
    """A row of indices for each element that is not zero: the data decides how many."""
    return n.constant(np.argwhere(n.value_of(n.value("self"))).astype(np.int64))


@aten("nonzero_static")
def nonzero_static(n: TorchNode) -> Value:
    """So many rows: the first ones, then a filling."""
    x, size = n.value("self"), n.size("size")
    rows = np.argwhere(n.value_of(x))[:size]
    missing = np.full((size - len(rows), rows.shape[1]), n.scalar("fill_value"))
    return n.constant(np.concatenate([rows, missing]).astype(np.int64))


@aten("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(n: TorchNode) -> Value:
    """Slices along an axis filled with one value."""
    x, index = n.value("self"), n.value("index")
    value = operand(n, "value", x.type.dtype)
    if not x.type.rank:
        return value
    return _put_along(n, x, index, value, accumulate=False)


@aten("index_add", "index_copy")
def index_update(n: TorchNode) -> Value:
    """Slices along an axis replaced, or added to."""
    x, index = n.value("self"), n.value("index")
    source = as_dtype(n, n.value("source"), x.type.dtype)
    is_sum = n.proto.op_type.startswith("index_add")
    alpha = n.argument("alpha")
    if alpha is not None and alpha != 1:
        source = n.emit(e.Mul(), source, operand(n, "alpha", x.type.dtype))
    if not x.type.rank:
        source = reshaped(n, source, ())
        return n.emit(e.Add(), x, source) if is_sum else source
    source = reshaped(n, source, source.type.shape or (1,))
    return _put_along(n, x, index, source, accumulate=is_sum)


def _put_along(n: TorchNode, x: Value, index: Value, values: Value, *, accumulate: bool) -> Value:
    axis = axis_of(n, "dim", x.type.rank)
    index = as_dtype(n, reshaped(n, index, (index.type.size,)), i64)
    if index.type.size == 0:
        return x
    places = _Places((axis,), (index,), index.type.shape)
    return put(n, x, places, values, accumulate=accumulate)


@aten("one_hot")
def one_hot(n: TorchNode) -> Value:
    """1 at the index along a new last axis; the classes are counted where they are not given."""
    x, classes = n.value("self"), n.size("num_classes")
    if classes == -1:
        found = n.value_of(x)
        if not found.size:
            raise ModelError("classes cannot be counted where there are no elements")
        classes = int(found.max()) + 1
    shape = (*x.type.shape, classes)
    apart = as_dtype(n, reshaped(n, x, (*x.type.shape, 1)), i64)
    return as_dtype(n, n.emit(e.Equal(), apart, counts(n, shape, len(shape) - 1)), i64)
