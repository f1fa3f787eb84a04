"""Ops that pick elements by index, and the one that puts slices at given indices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import Enum

import numpy as np

from afterglow.graph import Builder, Gradients, Op, Value, op
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, Div, Equal, Less, Mul, Where, scalar
from afterglow.ops.extents import integers
from afterglow.ops.fill import Fill
from afterglow.ops.movement import Reshape, Transpose
from afterglow.ops.reduction import ReduceSum
from afterglow.ops.rules import (
    exact_extent,
    normal_axis,
    require,
    require_integer,
    require_number,
    require_rank,
    require_same_dtype,
    require_shape,
)
from afterglow.types import Array, DType, IndexRange, IndexRanges, TensorType
from afterglow.types.dtype import i64, u64
from afterglow.types.extent import is_ranged


@op("iota")
class Iota(Op):
    """The numbers 0, 1, 2 … along an axis, constant along the others."""

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
    """Slices of data along an axis, selected by indices; negative ones count from the end."""

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

    def index_ranges(self, operands: Sequence[TensorType | None]) -> Mapping[str, IndexRanges]:
        """Places along the axis."""
        return along(self.axis, self.required_of(operands)[0])

    def gradient(
        self, b: Builder, out: Value, grad: Value, data: Value, indices: Value
    ) -> Gradients:
        """Each slice added where it came from."""
        axis, shape = normal_axis(self.axis, data.type, "data"), data.type.shape
        last = axis + indices.type.rank
        to_front = (*range(axis, last), *range(axis), *range(last, grad.type.rank))
        slices = b.emit(Transpose(to_front), grad)
        turned = (shape[axis], *shape[:axis], *shape[axis + 1 :])
        zeros = b.emit(Fill(turned, 0.0, data.type.dtype))
        tuples = b.emit(Reshape((*indices.type.shape, 1)), indices)
        total = b.emit(ScatterND(ScatterReduction.ADD), zeros, tuples, slices)
        back = (*range(1, axis + 1), 0, *range(axis + 1, len(shape)))
        return b.emit(Transpose(back), total), None

    def weight_uses(self, operands: Sequence[TensorType | None]) -> Mapping[str, int]:
        """A table of embeddings is only read."""
        return {"data": 1}

    def parallel(
        self, axis: int, result: TensorType, operands: Sequence[TensorType | None]
    ) -> tuple[int | None, ...] | None:
        """Axes of the indices, and those of data around them."""
        data, indices = self.required_of(operands)
        first = self.axis % data.rank
        if axis < first:
            return axis, None
        if axis < first + indices.rank:
            return None, axis - first
        return axis - indices.rank + 1, None


@op("dynamic_slice")
class DynamicSlice(Op):
    """`extent` elements of x along an axis: start, start + step …, where start is an operand.

    All of them must be there: what `gather` makes of an index that is not, this op does, too.
    """

    moves_only = True
    axis: int
    extent: int
    step: int = 1

    def infer(self, x: TensorType, start: TensorType) -> TensorType:
        """The shape of x with another extent along the axis."""
        require_integer(start=start)
        require(start.dtype is not u64, f"start must fit a signed integer, got {start}")
        require_rank(0, start=start)
        require(self.step != 0, "step must not be 0")
        axis = normal_axis(self.axis, x)
        span = (self.extent - 1) * abs(self.step) + 1
        require(
            self.extent >= 0 and span <= x.shape[axis],
            f"{self.extent} elements in steps of {self.step} are not in axis {axis} of {x}",
        )
        return x.with_shape((*x.shape[:axis], self.extent, *x.shape[axis + 1 :]))

    def evaluate(self, x: Array, start: Array) -> Array:
        """NumPy's take."""
        return x.take(int(start) + np.arange(self.extent) * self.step, self.axis)

    def index_ranges(self, operands: Sequence[TensorType | None]) -> Mapping[str, IndexRanges]:
        """Starts from which all elements are there; negative ones count from the end."""
        x = self.required_of(operands)[0]
        extent, reach = x.shape[self.axis], max(self.extent - 1, 0) * self.step
        return {"start": (IndexRange(-extent - min(reach, 0), extent - 1 - max(reach, 0)),)}

    def lower(self, b: Builder, x: Value, start: Value) -> Value:
        """Gather the places, counted from the start."""
        wide = start if start.type.dtype is i64 else b.emit(Cast(i64), start)
        places = b.emit(Reshape((1,)), wide)
        if self.extent != 1:
            places = b.emit(Add(), places, multiples(b, (self.extent,), self.step, "steps"))
        return b.emit(Gather(self.axis), x, places)


@op("gather_elements")
class GatherElements(Op):
    """Single elements of data: the index replaces the position along the axis."""

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

    def index_ranges(self, operands: Sequence[TensorType | None]) -> Mapping[str, IndexRanges]:
        """Places along the axis."""
        return along(self.axis, self.required_of(operands)[0])

    def lower(self, b: Builder, data: Value, indices: Value) -> Value:
        """A gather from the flattened data."""
        flat = b.emit(Reshape((data.type.size,)), data)
        return b.emit(Gather(0), flat, element_places(b, self.axis, data.type.shape, indices))

    def permuted(self, perm: tuple[int, ...]) -> GatherElements:
        """Along the same axis at its new place."""
        return GatherElements(perm.index(self.axis % len(perm)))


def along(axis: int, data: TensorType) -> Mapping[str, IndexRanges]:
    """The range of indices along one axis of data."""
    return {"indices": (IndexRange.places(data.shape[axis]),)}


def by_tuples(data: TensorType, indices: TensorType, first: int = 0) -> Mapping[str, IndexRanges]:
    """The ranges of the indices of a tuple, along as many axes of data from the given one on."""
    extents = data.shape[first : first + indices.shape[-1]]
    return {"indices": tuple(map(IndexRange.places, extents))}


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
            steps = multiples(b, extents, math.prod(shape[at + 1 :]), "places")
            places = b.emit(Add(), places, steps)
    return places


def multiples(b: Builder, shape: Sequence[int], step: int, name: str) -> Value:
    """0, step, 2 step … as i64, one after the other in a shape."""
    count = math.prod(shape)
    if not is_ranged(count) and not is_ranged(step):
        return b.constant((np.arange(count) * step).reshape(tuple(shape)), name)
    counts = b.emit(Reshape(tuple(shape)), b.emit(Iota((count,), 0, i64)))
    return b.emit(Mul(), counts, integers(b, (step,), (), name))


def _strides(b: Builder, shape: Sequence[int], axis: int) -> Value:
    return integers(b, (math.prod(shape[axis + 1 :]),), (), "stride")


def wrapped(b: Builder, indices: Value, extents: Sequence[int]) -> Value:
    """The indices as i64, with negative ones counted from the front.

    `extents` are those that the last axis of indices points into, or one for all.
    """
    if indices.type.dtype is not i64:
        indices = b.emit(Cast(i64), indices)
    ends = integers(b, extents, (len(extents),), "extents")
    below = b.emit(Less(), indices, scalar(b, 0, indices))
    return b.emit(Where(), below, b.emit(Add(), indices, ends), indices)


@op("gather_nd")
class GatherND(Op):
    """Slices of data selected by the index tuples along the last axis of indices.

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

    def index_ranges(self, operands: Sequence[TensorType | None]) -> Mapping[str, IndexRanges]:
        """Places along the axes that the tuples stand for."""
        data, indices = self.required_of(operands)
        return by_tuples(data, indices, self.batch_axes)

    def lower(self, b: Builder, data: Value, indices: Value) -> Value:
        """A gather of rows, by places computed from the tuples."""
        shape, depth = data.type.shape, indices.type.shape[-1]
        batch, indexed = shape[: self.batch_axes], shape[self.batch_axes :][:depth]
        steps = [math.prod(indexed[at + 1 :]) for at in range(depth)]
        strides = integers(b, steps, (depth,), "strides")
        products = b.emit(Mul(), wrapped(b, indices, indexed), strides)
        places = b.emit(ReduceSum((products.type.rank - 1,), keepdims=False), products)
        if batch:
            extents = (*batch, *(1,) * (places.type.rank - len(batch)))
            starts = multiples(b, extents, math.prod(indexed), "starts")
            places = b.emit(Add(), places, starts)
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
    depth = exact_extent(indices.shape[-1], "how long the tuples of indices are")
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


class ScatterReduction(Enum):
    """What becomes of the old element where a new one is put."""

    NONE = "none"
    ADD = "add"
    MUL = "mul"
    MAX = "max"
    MIN = "min"


_UFUNCS: dict[ScatterReduction, np.ufunc] = {
    ScatterReduction.ADD: np.add,
    ScatterReduction.MUL: np.multiply,
    ScatterReduction.MAX: np.maximum,
    ScatterReduction.MIN: np.minimum,
}


@op("scatter_nd")
class ScatterND(Op):
    """data with slices replaced or combined at the index tuples along the last axis of indices.

    Of several updates of one place, the last stays if they do not combine.
    """

    inplace = ("data",)
    reduction: ScatterReduction = ScatterReduction.NONE

    def infer(self, data: TensorType, indices: TensorType, updates: TensorType) -> TensorType:
        """The type of data; there is one slice for each tuple."""
        check_updates(self.reduction, data, updates)
        depth = check_tuple_indices(0, data, indices)
        require_shape((*indices.shape[:-1], *data.shape[depth:]), updates=updates)
        return data

    def evaluate(self, data: Array, indices: Array, updates: Array) -> Array:
        """Assign or combine rows of data whose indexed axes are joined."""
        depth = indices.shape[-1]
        indexed, rest = data.shape[:depth], data.shape[depth:]
        places = linear_places(indices, indexed).reshape(-1)
        rows = data.reshape(math.prod(indexed), *rest)
        news = updates.reshape(len(places), *rest)
        return combined(rows, (places,), news, self.reduction).reshape(data.shape)

    def index_ranges(self, operands: Sequence[TensorType | None]) -> Mapping[str, IndexRanges]:
        """Places along the axes that the tuples stand for."""
        data, indices, _ = self.required_of(operands)
        return by_tuples(data, indices)

    def gradient(
        self, b: Builder, out: Value, grad: Value, data: Value, indices: Value, updates: Value
    ) -> Gradients | None:
        """To what is still there: of equal extremes to each its share, of factors the others."""
        gather, zero = GatherND(), scalar(b, 0, grad)
        match self.reduction:
            case ScatterReduction.ADD:
                return grad, None, b.emit(gather, grad, indices)
            case ScatterReduction.NONE:
                nothing = b.emit(Fill(updates.type.shape, 0.0, updates.type.dtype))
                old = b.emit(self, grad, indices, nothing)
                new = b.emit(gather, grad, indices)
                return old, None, b.emit(Where(), _stay(b, data, indices, updates), new, zero)
            case ScatterReduction.MAX | ScatterReduction.MIN:
                kept = b.emit(Equal(), data, out)
                taken = b.emit(Equal(), updates, b.emit(gather, out, indices))
                ones = [b.emit(Cast(data.type.dtype), here) for here in (kept, taken)]
                count = b.emit(ScatterND(ScatterReduction.ADD), ones[0], indices, ones[1])
                share = b.emit(Div(), grad, count)
                new = b.emit(gather, share, indices)
                old = b.emit(Where(), kept, share, zero)
                return old, None, b.emit(Where(), taken, new, zero)
        whole = b.emit(Fill(data.type.shape, 1.0, data.type.dtype))
        old = b.emit(Mul(), grad, b.emit(self, whole, indices, updates))
        place = b.emit(gather, b.emit(Mul(), grad, data), indices)
        return old, None, b.emit(Mul(), place, _others(b, data, indices, updates))


def _others(b: Builder, data: Value, indices: Value, updates: Value) -> Value:
    """For each update, the product of all others of the same place; zeros among them are right."""
    one, zero = scalar(b, 1, updates), scalar(b, 0, updates)
    is_zero = b.emit(Equal(), updates, zero)
    factors = b.emit(Where(), is_zero, one, updates)
    count = b.emit(Cast(updates.type.dtype), is_zero)
    ones, zeros = (b.emit(Fill(data.type.shape, x, data.type.dtype)) for x in (1.0, 0.0))
    product = b.emit(ScatterND(ScatterReduction.MUL), ones, indices, factors)
    counts = b.emit(ScatterND(ScatterReduction.ADD), zeros, indices, count)
    rest = b.emit(Div(), b.emit(GatherND(), product, indices), factors)
    alone = b.emit(Equal(), b.emit(GatherND(), counts, indices), count)
    return b.emit(Where(), alone, rest, zero)


def _stay(b: Builder, data: Value, indices: Value, updates: Value) -> Value:
    """Which updates no later one replaces, as booleans that broadcast to them."""
    *counts, depth = indices.type.shape
    numbers = b.constant(np.arange(math.prod(counts)).reshape(counts), "numbers")
    board = b.emit(Fill(data.type.shape[:depth], 0.0, i64))
    lasting = b.emit(GatherND(), b.emit(ScatterND(), board, indices, numbers), indices)
    shape = (*counts, *(1 for _ in updates.type.shape[len(counts) :]))
    return b.emit(Reshape(shape), b.emit(Equal(), lasting, numbers))


def check_updates(reduction: ScatterReduction, data: TensorType, updates: TensorType) -> None:
    """The rule of scatters: the same elements, which can be combined if they are to be."""
    dtype = require_same_dtype(data=data, updates=updates)
    require(
        reduction is ScatterReduction.NONE or dtype.is_number,
        f"only numbers can be combined, got {data}",
    )


def combined(
    data: Array, places: tuple[Array, ...], updates: Array, reduction: ScatterReduction
) -> Array:
    """data with updates put in at places."""
    result = data.copy()
    if reduction is ScatterReduction.NONE:
        result[places] = updates
    else:
        _UFUNCS[reduction].at(result, places, updates)
    return result


LOOKUPS = (Gather, GatherElements, GatherND)
"""Ops that read only those elements of their first operand that they return."""
