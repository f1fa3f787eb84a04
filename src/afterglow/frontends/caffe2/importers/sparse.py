"""Caffe2's operators on rows of tables, as recommendation models have them."""

from __future__ import annotations

import numpy as np

from afterglow.frontends.caffe2.registry import Caffe2Node, caffe2_op
from afterglow.frontends.common.conversion import as_dtype
from afterglow.graph import Value
from afterglow.ops.elementwise import Add, Div, Equal, LessEqual, Max, Min, Mul, Where, scalar
from afterglow.ops.fill import Fill
from afterglow.ops.indexing import Gather, Iota, ScatterND, ScatterReduction
from afterglow.ops.movement import Concat, Expand, Reshape, slice_axis
from afterglow.ops.reduction import CumSum, ReduceMin, ReduceSum
from afterglow.support.errors import ModelError
from afterglow.types import Array
from afterglow.types import dtype as d

_PARAMETERS = {"Fused8BitRowwise": (np.float32, 8), "Fused4BitRowwise": (np.float16, 4)}
"""What follows the elements of a row: scale and offset, and their bytes together."""


def _owners(n: Caffe2Node, rows: int, lengths: Value) -> Value:
    """For each row the number of the length that it belongs to, as a column."""
    (count,) = n.extents(lengths, 1)
    ends = n.emit(CumSum(0), as_dtype(n, lengths, d.i64))
    here = n.emit(Iota((rows, 1), 0, d.i64))
    passed = as_dtype(n, n.emit(LessEqual(), n.emit(Reshape((1, count)), ends), here), d.i64)
    return n.emit(ReduceSum((1,), True), passed)


def _summed(n: Caffe2Node, rows: Value, lengths: Value) -> Value:
    """Sums of so many rows each, one after the other."""
    owners = _owners(n, _count(rows), lengths)
    zeros = n.emit(Fill((*lengths.type.shape, *rows.type.shape[1:]), 0.0, rows.type.dtype))
    return n.emit(ScatterND(ScatterReduction.ADD), zeros, owners, rows)


def _count(rows: Value) -> int:
    if not rows.type.rank:
        raise ModelError(f"rows must have 1 or more axes, they are {rows.type}")
    return rows.type.shape[0]


def _mean(n: Caffe2Node, total: Value, lengths: Value) -> Value:
    """Sums by the number of their rows; 0 if there are none."""
    counts = as_dtype(n, lengths, total.type.dtype)
    counts = n.emit(Max(), counts, scalar(n.builder, 1, counts))
    shape = (*counts.type.shape, *(1,) * (total.type.rank - 1))
    return n.emit(Div(), total, n.emit(Reshape(shape), counts))


@caffe2_op("LengthsSum", "LengthsMean")
def lengths_sum(n: Caffe2Node) -> Value:
    """Sums or means of so many rows each."""
    total = _summed(n, n[0], n[1])
    return total if n.proto.op_type == "LengthsSum" else _mean(n, total, n[1])


@caffe2_op("SparseLengthsSum", "SparseLengthsMean")
def sparse_lengths_sum(n: Caffe2Node) -> Value:
    """The same of rows that are chosen by their indices."""
    total = _summed(n, n.emit(Gather(0), n[0], n[1]), n[2])
    return total if n.proto.op_type == "SparseLengthsSum" else _mean(n, total, n[2])


@caffe2_op("SparseLengthsWeightedSum")
def sparse_lengths_weighted_sum(n: Caffe2Node) -> Value:
    """The same, each row times a weight."""
    return _weighted(n, n[0], n[1], n[2], n[3])


def _weighted(n: Caffe2Node, table: Value, weights: Value, indices: Value, lengths: Value) -> Value:
    rows = n.emit(Gather(0), table, indices)
    shape = (*weights.type.shape, *(1,) * (rows.type.rank - 1))
    return _summed(n, n.emit(Mul(), rows, n.emit(Reshape(shape), weights)), lengths)


@caffe2_op(*(f"SparseLengthsSum{kind}" for kind in _PARAMETERS))
def fused_sum(n: Caffe2Node) -> Value:
    """Sums of rows that are stored as small integers, each with its scale and offset."""
    return _summed(n, n.emit(Gather(0), _fused(n), n[1]), n[2])


@caffe2_op(*(f"SparseLengthsWeightedSum{kind}" for kind in _PARAMETERS))
def fused_weighted_sum(n: Caffe2Node) -> Value:
    """The same, each row times a weight."""
    return _weighted(n, _fused(n), n[1], n[2], n[3])


def _fused(n: Caffe2Node) -> Value:
    """A table as floats, from rows of integers that end with their scale and offset."""
    kind = next(kind for kind in _PARAMETERS if n.proto.op_type.endswith(kind))
    dtype, size = _PARAMETERS[kind]
    stored = n.known(0)
    if stored.dtype != np.uint8 or stored.ndim != 2 or stored.shape[1] <= size:
        raise ModelError(f"a table of bytes is needed, input 0 is {n[0].type}")
    parameters = np.ascontiguousarray(stored[:, -size:]).view(dtype).astype(np.float32)
    elements = stored[:, :-size]
    if kind == "Fused4BitRowwise":
        elements = np.stack((elements & 15, elements >> 4), -1).reshape(len(stored), -1)
    return _scaled(n, elements, parameters)


def _scaled(n: Caffe2Node, elements: Array, parameters: Array) -> Value:
    scale, offset = parameters[:, :1], parameters[:, 1:2]
    return n.constant(elements.astype(np.float32) * scale + offset)


@caffe2_op("SparseLengthsSum8BitsRowwise")
def rowwise_sum(n: Caffe2Node) -> Value:
    """Sums of rows that are stored as bytes; scales and offsets are an operand."""
    return _summed(n, n.emit(Gather(0), _rowwise(n, 3), n[1]), n[2])


@caffe2_op("SparseLengthsWeightedSum8BitsRowwise")
def rowwise_weighted_sum(n: Caffe2Node) -> Value:
    """The same, each row times a weight."""
    return _weighted(n, _rowwise(n, 4), n[1], n[2], n[3])


def _rowwise(n: Caffe2Node, index: int) -> Value:
    stored, parameters = n.known(0), n.known(index)
    if stored.dtype != np.uint8 or stored.ndim != 2 or parameters.shape != (len(stored), 2):
        raise ModelError(f"a table of bytes is needed, input 0 is {n[0].type}")
    return _scaled(n, stored, parameters)


@caffe2_op("LengthsToRanges")
def lengths_to_ranges(n: Caffe2Node) -> Value:
    """For each length, where it starts if all follow each other, and the length."""
    (count,) = n.extents(n[0], 1)
    starts = n.emit(CumSum(0, exclusive=True), n[0])
    return n.emit(Concat(1), *(n.emit(Reshape((count, 1)), part) for part in (starts, n[0])))


@caffe2_op("SparseToDense")
def sparse_to_dense(n: Caffe2Node) -> Value:
    """Zeros, with rows added where their indices say."""
    indices, rows = n[0], n[1]
    (count,) = n.extents(indices, 1)
    if len(n) > 2:
        first = n[2].type.shape[0] if n[2].type.rank else 1
    elif n.has("output_first_dim"):
        first = n.integer("output_first_dim")
    else:
        raise n.fail("the number of rows depends on data", help="give 'output_first_dim'")
    if first < 0:
        raise ModelError(f"attribute 'output_first_dim' is {first}")
    zeros = n.emit(Fill((first, *rows.type.shape[1:]), 0.0, rows.type.dtype))
    places = n.emit(Reshape((count, 1)), as_dtype(n, indices, d.i64))
    return n.emit(ScatterND(ScatterReduction.ADD), zeros, places, rows)


@caffe2_op("BatchSparseToDense")
def batch_sparse_to_dense(n: Caffe2Node) -> Value:
    """Rows of a default value, with others where their indices say: so many in each row."""
    lengths, indices, values = n[0], n[1], n[2]
    (count,) = n.extents(indices, 1)
    wanted = n[3].type.shape[-1:] if len(n) > 3 else (n.integer("dense_last_dim"),)
    if not wanted or wanted[0] < 1:
        raise ModelError(f"a row cannot have {wanted[0] if wanted else 'no'} elements")
    columns = wanted[0]
    shape = (*lengths.type.shape, columns)
    dense = n.emit(Fill(shape, n.number("default_value", 0.0), values.type.dtype))
    column = n.emit(Reshape((count, 1)), as_dtype(n, indices, d.i64))
    places = n.emit(Concat(1), _owners(n, count, lengths), column)
    return n.emit(ScatterND(), dense, places, values)


@caffe2_op("FillExamplesWithIndicator")
def fill_examples(n: Caffe2Node) -> Value:
    """A row for each indicator: the next of the data where it holds, zeros elsewhere."""
    data, indicator = n[0], as_dtype(n, n[1], d.i64)
    (count,) = n.extents(indicator, 1)
    before = n.emit(CumSum(0, exclusive=True), indicator)
    last = scalar(n.builder, max(0, _count(data) - 1), before)
    rows = n.emit(Gather(0), data, n.emit(Min(), before, last))
    holds = n.emit(Reshape((count, *(1,) * (data.type.rank - 1))), as_dtype(n, n[1], d.boolean))
    return n.emit(Where(), holds, rows, scalar(n.builder, 0, rows))


@caffe2_op("SparseToDenseMask")
def sparse_to_dense_mask(n: Caffe2Node) -> tuple[Value, ...]:
    """For each row the values of the indices in `mask`, or a default; and whether there is one."""
    indices, values, default = n[0], n[1], n[2]
    mask, each = n.integers("mask"), default.type.shape
    (count,) = n.extents(indices, 1)
    lengths = n.get(3) or n.constant(np.array([count], np.int32))
    shape = (*lengths.type.shape, len(mask) + 1)
    places = n.emit(Concat(1), _owners(n, count, lengths), _places_in(n, indices, mask))
    filled = n.emit(Expand((*shape, *each)), default)
    dense = n.emit(ScatterND(), filled, places, values)
    found = n.emit(Fill(shape, 0.0, d.boolean))
    found = n.emit(ScatterND(), found, places, n.emit(Fill((count,), 1.0, d.boolean)))
    return tuple(n.emit(slice_axis(part.type, 1, 0, len(mask)), part) for part in (dense, found))


def _places_in(n: Caffe2Node, indices: Value, mask: tuple[int, ...]) -> Value:
    """Where each index is in a list, as a column; behind its end if it is not."""
    count = indices.type.size
    column = n.emit(Reshape((count, 1)), as_dtype(n, indices, d.i64))
    equal = n.emit(Equal(), column, n.constant(np.array([mask], np.int64)))
    steps = n.constant(np.arange(len(mask), dtype=np.int64)[None] - len(mask))
    found = n.emit(Mul(), as_dtype(n, equal, d.i64), steps)
    least = n.emit(ReduceMin((1,), True), found)
    return n.emit(Add(), least, scalar(n.builder, len(mask), least))
