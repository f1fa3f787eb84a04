"""Sorting and searching."""

from __future__ import annotations

import numpy as np

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.movement import integer_constant, number_like, reshaped
from afterglow.frontends.torch.importers.elementwise import name_of
from afterglow.frontends.torch.importers.operands import (
    axis_of,
    common_type,
    number,
    operand,
)
from afterglow.frontends.torch.node import TorchNode
from afterglow.frontends.torch.registry import aten
from afterglow.graph import Value
from afterglow.ops import elementwise as e
from afterglow.ops.indexing import GatherElements
from afterglow.ops.movement import slice_axis
from afterglow.ops.reduction import ReduceMax, ReduceSum
from afterglow.ops.search import ArgMax, TopK
from afterglow.support.errors import UnsupportedError
from afterglow.types import Array
from afterglow.types.dtype import boolean, i64, u8


@aten("sort", "sort.stable")
def sort(n: TorchNode) -> tuple[Value, Value]:
    """All elements along an axis in order; equal ones keep theirs."""
    x = n.value("self")
    extent = x.type.shape[axis_of(n, "dim", x.type.rank)] if x.type.rank else 1
    return _best(n, x, extent, largest=n.flag("descending"))


@aten("argsort", "argsort.stable")
def argsort(n: TorchNode) -> Value:
    """Where the elements in order are."""
    return sort(n)[1]


@aten("topk")
def topk(n: TorchNode) -> tuple[Value, Value]:
    """The k best, in order."""
    return _best(n, n.value("self"), n.size("k"), largest=n.flag("largest"))


def _best(n: TorchNode, x: Value, count: int, *, largest: bool) -> tuple[Value, Value]:
    if not x.type.rank:
        return x, integer_constant(n, 0)
    ordered = as_dtype(n, x, u8) if x.type.dtype is boolean else x
    axis = axis_of(n, "dim", x.type.rank)
    values, indices = n.emit_all(TopK(count, axis, largest), ordered)
    return as_dtype(n, values, x.type.dtype), indices


@aten("kthvalue")
def kthvalue(n: TorchNode) -> tuple[Value, Value]:
    """The k-th smallest along an axis."""
    return _ranked(n, n.value("self"), n.size("k") - 1)


@aten("median.dim", "nanmedian.dim")
def median_along(n: TorchNode) -> tuple[Value, Value]:
    """The lower of the two in the middle; NaN if any is."""
    x = n.value("self")
    if not x.type.rank:
        return x, integer_constant(n, 0)
    return _median(n, x, axis_of(n, "dim", x.type.rank), keepdim=n.flag("keepdim"))


@aten("median", "nanmedian")
def median(n: TorchNode) -> Value:
    """The same, of all elements."""
    x = n.value("self")
    if x.type.size == 0:
        return number(n, float("nan"), x.type.dtype)
    return _median(n, reshaped(n, x, (x.type.size,)), 0, keepdim=False)[0]


def _median(n: TorchNode, x: Value, axis: int, *, keepdim: bool) -> tuple[Value, Value]:
    extent, dtype = x.type.shape[axis], x.type.dtype
    if name_of(n) == "nanmedian" and dtype.is_float:
        return _nan_median(n, x, axis, keepdim=keepdim)
    values, indices = n.emit_all(TopK((extent + 1) // 2, axis, largest=False), x)
    value, index = (_last(n, each, axis) for each in (values, indices))
    if dtype.is_float:
        broken = n.emit(e.IsNaN(), x)
        any_nan = n.emit(ReduceMax((axis,)), broken)
        first = n.emit(ArgMax(axis), as_dtype(n, broken, u8))
        value = n.emit(e.Where(), any_nan, number_like(n, float("nan"), x), value)
        index = n.emit(e.Where(), any_nan, first, index)
    return _without(n, value, axis, keepdim=keepdim), _without(n, index, axis, keepdim=keepdim)


def _nan_median(n: TorchNode, x: Value, axis: int, *, keepdim: bool) -> tuple[Value, Value]:
    """Of the elements that are numbers: which in the order depends on how many there are."""
    values, indices = n.emit_all(TopK(x.type.shape[axis], axis, largest=False), x)
    held = as_dtype(n, n.emit(e.Not(), n.emit(e.IsNaN(), x)), i64)
    count = n.emit(ReduceSum((axis,)), held)
    place = n.emit(e.Div(), n.emit(e.Sub(), count, number(n, 1, i64)), number(n, 2, i64))
    place = n.emit(e.Max(), place, number(n, 0, i64))
    found = (n.emit(GatherElements(axis), each, place) for each in (values, indices))
    value, index = (_without(n, each, axis, keepdim=keepdim) for each in found)
    return value, index


def _ranked(n: TorchNode, x: Value, rank: int) -> tuple[Value, Value]:
    if not x.type.rank:
        return x, integer_constant(n, 0)
    axis = axis_of(n, "dim", x.type.rank)
    values, indices = n.emit_all(TopK(rank + 1, axis, largest=False), x)
    keepdim = n.flag("keepdim")
    value, index = (
        _without(n, _last(n, each, axis), axis, keepdim=keepdim) for each in (values, indices)
    )
    return value, index


def _last(n: TorchNode, x: Value, axis: int) -> Value:
    return n.emit(slice_axis(x.type, axis, x.type.shape[axis] - 1, 1), x)


def _without(n: TorchNode, x: Value, axis: int, *, keepdim: bool) -> Value:
    """Without an axis of extent 1, unless it is to be kept."""
    shape = x.type.shape
    return x if keepdim else reshaped(n, x, (*shape[:axis], *shape[axis + 1 :]))


@aten("mode")
def mode(n: TorchNode) -> tuple[Value, Value]:
    """The most frequent element along an axis, the least of those, and where it last is."""
    x = n.value("self")
    if not x.type.rank:
        return x, integer_constant(n, 0)
    axis = axis_of(n, "dim", x.type.rank)
    values, indices = n.emit_all(TopK(x.type.shape[axis], axis, largest=False), x)
    shape = values.type.shape
    down = reshaped(n, values, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
    across = reshaped(n, values, (*shape[:axis], 1, *shape[axis:]))
    same = as_dtype(n, n.emit(e.Equal(), down, across), i64)
    count = n.emit(ReduceSum((axis + 1,), keepdims=False), same)
    first = n.emit(ArgMax(axis), count)
    most = n.emit(ReduceMax((axis,)), count)
    last = n.emit(e.Sub(), n.emit(e.Add(), first, most), number(n, 1, i64))
    found = (n.emit(GatherElements(axis), each, last) for each in (values, indices))
    value, index = (_without(n, each, axis, keepdim=n.flag("keepdim")) for each in found)
    return value, index


@aten("searchsorted.Tensor", "searchsorted.Scalar")
def searchsorted(n: TorchNode) -> Value:
    """How many of a sorted row lie before each value."""
    rows = n.value("sorted_sequence")
    sorter = n.optional("sorter")
    if sorter is not None:
        rows = n.emit(GatherElements(rows.type.rank - 1), rows, sorter)
    side = n.argument("side")
    return _before(n, rows, "self", right=n.flag("right") or side == "right")


@aten("bucketize.Tensor", "bucketize.Scalar")
def bucketize(n: TorchNode) -> Value:
    """How many boundaries lie before each value."""
    return _before(n, n.value("boundaries"), "self", right=n.flag("right"))


def _before(n: TorchNode, rows: Value, name: str, *, right: bool) -> Value:
    """Count the elements that are less than a value, or not above it."""
    dtype = common_type((rows, n.argument(name)))
    rows, values = as_dtype(n, rows, dtype), operand(n, name, dtype)
    if rows.type.rank == 1:
        values = reshaped(n, values, (*values.type.shape, 1))
    else:
        values = reshaped(n, values, (*values.type.shape, 1))
        rows = reshaped(n, rows, (*rows.type.shape[:-1], 1, rows.type.shape[-1]))
    behind = n.emit(e.Less() if right else e.LessEqual(), values, rows)
    before = as_dtype(n, n.emit(e.Not(), behind), n.result_type())
    return n.emit(ReduceSum((before.type.rank - 1,), keepdims=False), before)


@aten("isin.Tensor_Tensor", "isin.Tensor_Scalar", "isin.Scalar_Tensor")
def isin(n: TorchNode) -> Value:
    """Whether each element is one of some others."""
    ends = ("element", "elements"), ("test_element", "test_elements")
    names = [next(name for name in pair if n.argument(name) is not None) for pair in ends]
    dtype = common_type(n.argument(name) for name in names)
    elements, tests = (operand(n, name, dtype) for name in names)
    apart = reshaped(n, elements, (*elements.type.shape, 1))
    flat = reshaped(n, tests, (tests.type.size,))
    equal = n.emit(e.Equal(), apart, flat)
    found = n.emit(ReduceMax((equal.type.rank - 1,), keepdims=False), equal)
    return n.emit(e.Not(), found) if n.flag("invert") else found


@aten("_unique2")
def unique(n: TorchNode) -> tuple[Value, ...]:
    """The data decides how many there are."""
    x = n.value_of(n.value("self"))
    found, inverse, count = np.unique(
        x.reshape(-1), return_inverse=True, return_counts=True, equal_nan=False
    )
    return _constants(n, found, inverse.reshape(x.shape), count)


@aten("unique_dim")
def unique_dim(n: TorchNode) -> tuple[Value, ...]:
    """Slices along an axis that differ."""
    x = n.value_of(n.value("self"))
    axis = axis_of(n, "dim", x.ndim)
    found, inverse, count = np.unique(x, return_inverse=True, return_counts=True, axis=axis)
    return _constants(n, found, inverse.reshape(-1), count)


@aten("unique_consecutive")
def unique_consecutive(n: TorchNode) -> tuple[Value, ...]:
    """Without repetitions of what comes right before."""
    x = n.value_of(n.value("self"))
    axis = 0 if n.argument("dim") is None else axis_of(n, "dim", x.ndim)
    flat = x.reshape(-1) if n.argument("dim") is None else x
    if not flat.size:
        raise UnsupportedError("unique_consecutive of no elements is not supported")
    rows = np.moveaxis(flat, axis, 0).reshape(flat.shape[axis], -1)
    starts = np.concatenate([[True], (rows[1:] != rows[:-1]).any(1)])
    inverse = np.cumsum(starts) - 1
    shape = x.shape if n.argument("dim") is None else inverse.shape
    count = np.bincount(inverse)
    return _constants(n, flat.compress(starts, axis), inverse.reshape(shape), count)


def _constants(n: TorchNode, found: Array, inverse: Array, count: Array) -> tuple[Value, ...]:
    places = (n.constant(each.astype(np.int64)) for each in (inverse, count))
    return n.constant(found), *places
