"""TFLite's ops that pick and put elements by index."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.movement import reshaped
from afterglow.frontends.common.ranges import value_range
from afterglow.frontends.definition.dialect import Results
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import tflite_op
from afterglow.graph import Value
from afterglow.ops import elementwise as e
from afterglow.ops.indexing import Gather, GatherND, Iota, ScatterND, ScatterReduction
from afterglow.ops.lengths import CheckLengths
from afterglow.ops.movement import Concat, Expand, Transpose, slice_axis
from afterglow.support.errors import ModelError
from afterglow.types.dtype import DType, i64

_REDUCTIONS: Mapping[str, ScatterReduction] = {
    "UNSORTED_SEGMENT_SUM": ScatterReduction.ADD,
    "UNSORTED_SEGMENT_PROD": ScatterReduction.MUL,
    "UNSORTED_SEGMENT_MAX": ScatterReduction.MAX,
    "UNSORTED_SEGMENT_MIN": ScatterReduction.MIN,
}


@tflite_op("GATHER", moves=True)
def gather(n: TfliteNode) -> Value:
    """Slices by index; the first axes of both may be those of a batch."""
    x, indices, batch = n[0], n[1], n.count("batch_dims")
    axis = n.axis(n.count("axis"), x.type.rank)
    batch = batch + indices.type.rank if batch < 0 else batch
    if not batch:
        return n.emit(Gather(axis), x, indices)
    shared = x.type.shape[:batch]
    if not batch <= axis or indices.type.shape[:batch] != shared:
        raise ModelError(f"indices {indices.type} do not fit {x.type}: {batch} axes of a batch")
    others = [other for other in range(batch, x.type.rank) if other != axis]
    front = n.emit(Transpose((*range(batch), axis, *others)), x)
    tuples = reshaped(n, indices, (*indices.type.shape, 1))
    found = n.emit(GatherND(batch), front, tuples)
    rank, behind = indices.type.rank, axis - batch
    perm = (
        *range(batch),
        *range(rank, rank + behind),
        *range(batch, rank),
        *range(rank + behind, found.type.rank),
    )
    return n.emit(Transpose(perm), found)


@tflite_op("GATHER_ND", moves=True)
def gather_nd(n: TfliteNode) -> Value:
    """Slices selected by index tuples."""
    return n.emit(GatherND(), n[0], n[1])


@tflite_op("SCATTER_ND", moves=True)
def scatter_nd(n: TfliteNode) -> Value:
    """Slices put into zeros of a shape; those at the same place are added."""
    shape = n.known_extents(2)
    zeros = n.emit(Expand(shape), n.full(0, n[1].type.dtype))
    return n.emit(ScatterND(ScatterReduction.ADD), zeros, n[0], n[1])


@tflite_op("SPARSE_TO_DENSE", moves=True)
def sparse_to_dense(n: TfliteNode) -> Value:
    """Numbers at index tuples, and a default elsewhere."""
    indices, shape, values = n[0], n.known_extents(1), n[2]
    count = 1 if not indices.type.rank else indices.type.shape[0]
    width = indices.type.shape[1] if indices.type.rank > 1 else 1
    tuples = reshaped(n, indices, (count, width))
    if not values.type.rank:
        values = n.emit(Expand((count,)), values)
    return n.emit(ScatterND(), n.emit(Expand(shape), reshaped(n, n[3], ())), tuples, values)


@tflite_op("ONE_HOT", moves=True)
def one_hot(n: TfliteNode) -> Value:
    """One number where the index is equal to the count along a new axis, another elsewhere."""
    depth, axis = n.known_extent(1), n.count("axis", -1)
    rank = n[0].type.rank + 1
    axis = n.axis(axis, rank)
    shape = n[0].type.shape
    indices = reshaped(n, as_dtype(n, n[0], i64), (*shape[:axis], 1, *shape[axis:]))
    extents = tuple(depth if other == axis else 1 for other in range(rank))
    hot = n.emit(e.Equal(), indices, n.emit(Iota(extents, axis, i64)))
    return n.emit(e.Where(), hot, reshaped(n, n[2], ()), reshaped(n, n[3], ()))


@tflite_op("RANGE")
def count_up(n: TfliteNode) -> Results:
    """From a start to a limit by steps."""
    return value_range(n)


@tflite_op("REVERSE_SEQUENCE", moves=True)
def reverse_sequence(n: TfliteNode) -> Value:
    """The first elements along an axis, as many as each of a batch has, reversed."""
    x, rank = n[0], n[0].type.rank
    time, batch = (n.axis(n.count(name), rank) for name in ("seq_dim", "batch_dim"))
    if time == batch:
        raise ModelError(f"axis {time} is both that of the batch and that of time")
    others = [axis for axis in range(rank) if axis not in (batch, time)]
    perm = (batch, time, *others)
    front = n.emit(Transpose(perm), x)
    rows, steps = front.type.shape[:2]
    lengths = n.emit(CheckLengths(steps), as_dtype(n, n[1], i64))
    lengths = reshaped(n, lengths, (rows, 1))
    step = n.emit(Iota((1, steps), 1, i64))
    mirrored = n.emit(e.Sub(), n.emit(e.Sub(), lengths, n.full(1, i64)), step)
    source = n.emit(e.Where(), n.emit(e.Less(), step, lengths), mirrored, step)
    tuples = reshaped(n, source, (rows, steps, 1))
    back = tuple(int(place) for place in np.argsort(perm))
    return n.emit(Transpose(back), n.emit(GatherND(1), front, tuples))


@tflite_op("SEGMENT_SUM")
def segment_sum(n: TfliteNode) -> Value:
    """Sums of the rows that have the same number; the numbers decide how many sums there are."""
    numbers = n.known_ints(1)
    if any(number < 0 for number in numbers):
        raise ModelError("the numbers of segments must not be negative")
    count = max(numbers, default=-1) + 1
    return _segments(n, count, ScatterReduction.ADD, 0)


@tflite_op(*_REDUCTIONS)
def unsorted_segment(n: TfliteNode) -> Value:
    """The rows that have the same number combined; those of negative numbers are left out."""
    reduction = _REDUCTIONS[n.proto.op_type]
    if not n[0].type.dtype.is_number:
        raise ModelError(f"{n[0].type} holds no numbers")
    return _segments(n, n.known_extent(2), reduction, _neutral(reduction, n[0].type.dtype))


def _neutral(reduction: ScatterReduction, dtype: DType) -> float:
    """What changes nothing: what TFLite gives for segments without rows."""
    low, high = dtype.limits if dtype.is_integer else _float_limits(dtype)
    numbers = {ScatterReduction.MUL: 1, ScatterReduction.MAX: low, ScatterReduction.MIN: high}
    return numbers.get(reduction, 0)


def _float_limits(dtype: DType) -> tuple[float, float]:
    found = np.finfo(dtype.numpy)
    return float(found.min), float(found.max)


def _segments(n: TfliteNode, count: int, reduction: ScatterReduction, start: float) -> Value:
    """Rows scattered to so many segments, and those of negative numbers to one behind."""
    data, numbers = n[0], as_dtype(n, n[1], i64)
    rank = numbers.type.rank
    negative = n.emit(e.Less(), numbers, n.full(0, i64))
    places = n.emit(e.Where(), negative, n.integers_of((count,), ()), numbers)
    first = n.emit(Expand((count + 1, *data.type.shape[rank:])), n.full(start, data.type.dtype))
    tuples = reshaped(n, places, (*places.type.shape, 1))
    found = n.emit(ScatterND(reduction), first, tuples, data)
    return n.emit(slice_axis(found.type, 0, 0, count), found)


@tflite_op("MATRIX_DIAG", moves=True)
def matrix_diag(n: TfliteNode) -> Value:
    """Square matrices with the operand on their diagonals, and zeros elsewhere."""
    if not n[0].type.rank:
        raise ModelError("a number without axes is no diagonal")
    *outer, width = n[0].type.shape
    zeros = n.emit(Expand((*outer, width, width)), n.full(0, n[0].type.dtype))
    return _with_diagonal(n, zeros, n[0])


@tflite_op("MATRIX_SET_DIAG", moves=True)
def matrix_set_diag(n: TfliteNode) -> Value:
    """Matrices with other diagonals."""
    x, diagonal = n[0].type, n[1]
    if x.rank < 2 or diagonal.type.shape != (*x.shape[:-2], min(x.shape[-2:])):
        raise ModelError(f"{diagonal.type} is no diagonal of {x}")
    rows, columns = x.shape[-2:]
    if columns > rows:  # behind the square, any elements do
        shape = diagonal.type.shape
        more = n.emit(Expand((*shape[:-1], columns - rows)), n.full(0, diagonal.type.dtype))
        diagonal = n.emit(Concat(len(shape) - 1), diagonal, more)
    return _with_diagonal(n, n[0], diagonal)


def _with_diagonal(n: TfliteNode, x: Value, diagonal: Value) -> Value:
    rows, columns = x.type.shape[-2:]
    row, column = n.emit(Iota((rows, 1), 0, i64)), n.emit(Iota((1, columns), 1, i64))
    shape = diagonal.type.shape
    across = reshaped(n, diagonal, (*shape[:-1], 1, shape[-1]))
    return n.emit(e.Where(), n.emit(e.Equal(), row, column), across, x)


@tflite_op("WHERE")
def where(n: TfliteNode) -> Value:
    """The index tuples of what is not 0; the data decide how many there are."""
    return n.constant(np.argwhere(n.known(0)).astype(np.int64))


@tflite_op("UNIQUE", moves=True)
def unique(n: TfliteNode) -> tuple[Value, Value]:
    """Different elements in the order in which they come, and which of them each element is."""
    x = n.known(0).reshape(-1)
    found, first, inverse = np.unique(x, return_index=True, return_inverse=True)
    order = np.argsort(first)
    places = np.argsort(order)[inverse.reshape(-1)]
    return n.constant(found[order]), n.constant(places.astype(n.result_type(1).numpy))
