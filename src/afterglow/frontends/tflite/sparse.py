"""Sparse tensors of TFLite files, with their zeros written out.

Axes are walked in an order; each is dense, or compressed: then segments say which of its indices
are there. Axes may be divided into blocks, which are further axes at the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from afterglow.frontends.tflite.flatbuffer import Table
from afterglow.frontends.tflite.reader import TensorRecord
from afterglow.support.errors import ModelError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, DType

MOST_DENSE_BYTES = 2**26
"""What a sparse tensor may take, whatever it has stored."""

MOST_GROWTH = 1024
"""How many times of what it has stored a larger one may take."""

_INDEX_TYPES = {1: "<i4", 2: "<u2", 3: "<u1"}


@dataclass(frozen=True)
class _Axis:
    """One step of the walk: how many indices there are, and if compressed which ones are there."""

    extent: int
    segments: Array | None = None
    indices: Array | None = None


def dense_elements(tensor: TensorRecord, dtype: DType, values: Array) -> Array:
    """The elements of a sparse tensor, given those that are stored."""
    table = tensor.sparsity
    assert table is not None
    order, blocks = (_whole_numbers(table, slot, name) for slot, name in _LISTS)
    shape = tensor.shape
    axes = [_axis(each) for each in table.tables(2, "axis")]
    _check(tensor, order, blocks, axes)
    size = math.prod(shape) * dtype.itemsize
    if size > max(MOST_DENSE_BYTES, MOST_GROWTH * values.nbytes):
        raise ModelError(f"{tensor.what} is sparse, and its shape {shape} too large")
    strides = _strides(shape, order, blocks, axes)
    places = np.zeros(1, np.int64)
    rows = np.zeros(1, np.int64)
    for axis, stride in zip(axes, strides, strict=True):
        places, rows = _walk(tensor, axis, stride, places, rows)
    if places.size and places.max() >= math.prod(shape):
        raise ModelError(f"{tensor.what} is sparse, and has indices out of range")
    if places.size != values.size:
        raise ModelError(
            f"{tensor.what} is sparse: {places.size:,} elements belong there, "
            f"{values.size:,} are stored"
        )
    dense = np.zeros(math.prod(shape), values.dtype)
    dense[places] = values
    return dense.reshape(shape)


_LISTS = ((0, "traversal order"), (1, "block map"))


def _whole_numbers(table: Table, slot: int, name: str) -> tuple[int, ...]:
    found = table.numbers(slot, "<i4", name)
    return () if found is None else tuple(found.tolist())


def _axis(table: Table) -> _Axis:
    if not table.u8(0):
        return _Axis(table.i32(1))
    segments, indices = (_index_vector(table, slot) for slot in (2, 4))
    return _Axis(0, segments, indices)


def _index_vector(table: Table, slot: int) -> Array:
    kind = table.u8(slot)
    inner = table.table(slot + 1, "indices")
    if kind not in _INDEX_TYPES or inner is None:
        raise ModelError(f"{table.what} is compressed, but has no indices")
    found = inner.numbers(0, _INDEX_TYPES[kind], "values")
    return np.empty(0, np.int64) if found is None else found.astype(np.int64)


def _check(
    tensor: TensorRecord, order: Sequence[int], blocks: Sequence[int], axes: Sequence[_Axis]
) -> None:
    rank = len(tensor.shape)
    fits = (
        len(order) == len(axes) == rank + len(blocks)
        and sorted(order) == list(range(len(order)))
        and len(set(blocks)) == len(blocks)
        and all(0 <= block < rank for block in blocks)
        and all(axis.extent > 0 or axis.segments is not None for axis in axes)
    )
    if not fits:
        raise ModelError(f"{tensor.what} is sparse in a way that does not fit its shape")


def _strides(
    shape: Sequence[int], order: Sequence[int], blocks: Sequence[int], axes: Sequence[_Axis]
) -> list[int]:
    """How far apart the elements of neighbouring indices are, for each step of the walk."""
    rank = len(shape)
    whole = [math.prod(shape[axis + 1 :]) for axis in range(rank)]
    extents = {number: axis.extent for number, axis in zip(order, axes, strict=True)}
    size = {axis: extents[rank + number] for number, axis in enumerate(blocks)}
    return [
        whole[number] * size.get(number, 1) if number < rank else whole[blocks[number - rank]]
        for number in order
    ]


def _walk(
    tensor: TensorRecord, axis: _Axis, stride: int, places: Array, rows: Array
) -> tuple[Array, Array]:
    """What each place becomes when an axis is walked, and which row of the next axis it is."""
    if axis.segments is None:
        count = places.size * axis.extent
        _check_count(tensor, count)
        steps = np.arange(axis.extent)
        return (
            (places[:, None] + steps * stride).reshape(-1),
            (rows[:, None] * axis.extent + steps).reshape(-1),
        )
    assert axis.indices is not None
    segments, indices = axis.segments, axis.indices
    bad = segments.size <= int(rows.max(initial=0)) + 1 or np.any(np.diff(segments) < 0)
    if bad or segments[0] < 0 or segments[-1] > indices.size:
        raise ModelError(f"{tensor.what} is sparse, and its segments are out of range")
    counts = segments[rows + 1] - segments[rows]
    _check_count(tensor, int(counts.sum()))
    taken = np.repeat(segments[rows] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
    found = np.repeat(places, counts) + indices[taken] * stride
    if found.size and (indices[taken].min() < 0 or found.max() >= math.prod(tensor.shape)):
        raise ModelError(f"{tensor.what} is sparse, and has indices out of range")
    return found, taken


def _check_count(tensor: TensorRecord, count: int) -> None:
    if count > math.prod(tensor.shape):
        raise ModelError(f"{tensor.what} is sparse, and more elements belong there than it has")
