"""Ops that pick elements by index: iota, gather and its relatives."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from afterglow.graph import Array, Builder, Op, Value, op
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, Less, Mul, Where, scalar
from afterglow.ops.movement import Reshape
from afterglow.ops.reduction import ReduceSum
from afterglow.ops.rules import normal_axis, require, require_integer, require_number, require_rank
from afterglow.types import DType, TensorType
from afterglow.types.dtype import i64


@op("iota")
class Iota(Op):
    """Counts 0, 1, 2 … along an axis, the same along the others."""

    shape: tuple[int, ...]
    axis: int
    dtype: DType

    def infer(self) -> TensorType:
        """The given shape and element type."""
        result = TensorType(self.dtype, self.shape)
        require_number(result=result)
        normal_axis(self.axis, result, "result")
        return result

    def evaluate(self) -> Array:
        """NumPy's arange, broadcast."""
        extents = [1] * len(self.shape)
        extents[self.axis] = self.shape[self.axis]
        counts = np.arange(self.shape[self.axis]).reshape(extents)
        return np.broadcast_to(counts, self.shape)


@op("gather")
class Gather(Op):
    """Slices of data along an axis, picked by indices; negative ones count from the end."""

    moves_only = True
    axis: int = 0

    def infer(self, data: TensorType, indices: TensorType) -> TensorType:
        """The shape of data with the axis replaced by the shape of the indices."""
        require_integer(indices=indices)
        axis = normal_axis(self.axis, data, "data")
        return data.with_shape((*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :]))

    def evaluate(self, data: Array, indices: Array) -> Array:
        """NumPy's take."""
        return data.take(indices.astype(np.int64), self.axis)

    def parallel(
        self, axis: int, result: TensorType, operands: Sequence[TensorType | None]
    ) -> tuple[int | None, ...] | None:
        """Axes of the indices, and those of data around them."""
        data, indices = operands
        assert data is not None
        assert indices is not None
        first = self.axis % data.rank
        if axis < first:
            return axis, None
        if axis < first + indices.rank:
            return None, axis - first
        return axis - indices.rank + 1, None


@op("gather_elements")
class GatherElements(Op):
    """Elements of data picked one by one: the index replaces the place along the axis."""

    moves_only = True
    axis: int = 0

    def infer(self, data: TensorType, indices: TensorType) -> TensorType:
        """The shape of the indices, which is within that of data along the other axes."""
        check_element_indices(self.axis, data, indices)
        return data.with_shape(indices.shape)

    def evaluate(self, data: Array, indices: Array) -> Array:
        """NumPy's take_along_axis, on as much of data as the indices span."""
        axis = self.axis % data.ndim
        spanned = (
            slice(None) if at == axis else slice(extent) for at, extent in enumerate(indices.shape)
        )
        return np.take_along_axis(data[tuple(spanned)], indices.astype(np.int64), axis)

    def lower(self, b: Builder, data: Value, indices: Value) -> Value:
        """A gather from the flattened data."""
        flat = b.emit(Reshape((data.type.size,)), data)
        return b.emit(Gather(0), flat, element_places(b, self.axis, data.type.shape, indices))

    def permuted(self, perm: tuple[int, ...]) -> GatherElements:
        """Along the same axis at its new place."""
        return GatherElements(perm.index(self.axis % len(perm)))


def check_element_indices(axis: int, data: TensorType, indices: TensorType) -> None:
    """The rule of element-wise gather and scatter: indices lie within data but along the axis."""
    require_integer(indices=indices)
    require_rank(data.rank, indices=indices)
    axis = normal_axis(axis, data, "data")
    require(
        all(
            at == axis or count <= extent
            for at, (count, extent) in enumerate(zip(indices.shape, data.shape, strict=True))
        ),
        f"indices {indices} must lie within data {data} along every axis but {axis}",
    )


def element_places(b: Builder, axis: int, shape: Sequence[int], indices: Value) -> Value:
    """Where in flattened data of this shape the element-wise indices along an axis point."""
    axis %= len(shape)
    places = b.emit(Mul(), wrapped(b, indices, shape[axis : axis + 1]), _strides(b, shape, axis))
    for at, count in enumerate(indices.type.shape):
        if at != axis:
            extents = [1] * len(shape)
            extents[at] = count
            steps = np.arange(count) * math.prod(shape[at + 1 :])
            places = b.emit(Add(), places, b.constant(steps.reshape(extents), name="places"))
    return places


def _strides(b: Builder, shape: Sequence[int], axis: int) -> Value:
    return b.constant(np.array(math.prod(shape[axis + 1 :]), np.int64), name="stride")


def wrapped(b: Builder, indices: Value, extents: Sequence[int]) -> Value:
    """The indices as i64, with negative ones counted from the front.

    `extents` are those that the last axis of indices points into, or one for all.
    """
    if indices.type.dtype is not i64:
        indices = b.emit(Cast(i64), indices)
    ends = b.constant(np.array(extents, np.int64), name="extents")
    below = b.emit(Less(), indices, scalar(b, 0, indices))
    return b.emit(Where(), below, b.emit(Add(), indices, ends), indices)


@op("gather_nd")
class GatherND(Op):
    """Slices of data picked by index tuples along the last axis of indices.

    The first `batch_axes` axes of both go together.
    """

    moves_only = True
    batch_axes: int = 0

    def infer(self, data: TensorType, indices: TensorType) -> TensorType:
        """The shape of the indices without the tuple, then that of a slice."""
        depth = check_tuple_indices(self.batch_axes, data, indices)
        return data.with_shape((*indices.shape[:-1], *data.shape[self.batch_axes + depth :]))

    def evaluate(self, data: Array, indices: Array) -> Array:
        """Rows of data whose batch and indexed axes are joined."""
        batch, depth = data.shape[: self.batch_axes], indices.shape[-1]
        indexed = data.shape[self.batch_axes : self.batch_axes + depth]
        rest = data.shape[self.batch_axes + depth :]
        places = linear_places(indices, indexed)
        if batch:
            starts = np.arange(math.prod(batch)) * math.prod(indexed)
            places = places + starts.reshape(*batch, *[1] * (places.ndim - len(batch)))
        return data.reshape(math.prod(batch) * math.prod(indexed), *rest)[places]

    def lower(self, b: Builder, data: Value, indices: Value) -> Value:
        """A gather of rows, by places computed from the tuples."""
        shape, depth = data.type.shape, indices.type.shape[-1]
        batch, indexed = shape[: self.batch_axes], shape[self.batch_axes :][:depth]
        steps = [math.prod(indexed[at + 1 :]) for at in range(depth)]
        strides = b.constant(np.array(steps, np.int64), name="strides")
        products = b.emit(Mul(), wrapped(b, indices, indexed), strides)
        places = b.emit(ReduceSum((products.type.rank - 1,), keepdims=False), products)
        if batch:
            starts = np.arange(math.prod(batch)) * math.prod(indexed)
            starts = starts.reshape(*batch, *[1] * (places.type.rank - len(batch)))
            places = b.emit(Add(), places, b.constant(starts, name="starts"))
        rows = math.prod(batch) * math.prod(indexed)
        table = b.emit(Reshape((rows, *shape[self.batch_axes + depth :])), data)
        return b.emit(Gather(0), table, places)


def check_tuple_indices(batch_axes: int, data: TensorType, indices: TensorType) -> int:
    """The rule of gather and scatter by index tuples; return how long the tuples are."""
    require_integer(indices=indices)
    require(
        0 <= batch_axes < max(indices.rank, 1)
        and data.shape[:batch_axes] == indices.shape[:batch_axes],
        f"the first {batch_axes} axes of data {data} and indices {indices} must agree",
    )
    require(indices.rank > 0, "indices must have an axis that holds the tuples")
    depth = indices.shape[-1]
    require(
        batch_axes + depth <= data.rank,
        f"indices {indices} hold tuples of {depth}, data {data} has {data.rank} axes",
    )
    return depth


def linear_places(indices: Array, extents: Sequence[int]) -> Array:
    """Where the index tuples along the last axis point, in a tensor of these extents."""
    indices = indices.astype(np.int64)
    ends = np.array(extents, np.int64)
    strides = np.array([math.prod(extents[at + 1 :]) for at in range(len(extents))], np.int64)
    return (np.where(indices < 0, indices + ends, indices) * strides).sum(-1)
