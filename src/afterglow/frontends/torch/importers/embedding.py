"""ATen's embeddings: rows of a table, and sums of rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.torch.node import TorchNode
from afterglow.frontends.torch.registry import aten
from afterglow.graph import Value
from afterglow.ops.elementwise import Div, Equal, LessEqual, Max, Mul, Not, Sub, Where, scalar
from afterglow.ops.fill import Fill
from afterglow.ops.indexing import Gather, Iota, ScatterND, ScatterReduction
from afterglow.ops.movement import Reshape
from afterglow.ops.reduction import ReduceSum
from afterglow.types.dtype import i64

_SUM, _MEAN, _MAX = range(3)


@aten("embedding.default")
def embedding(n: TorchNode) -> Value:
    """A row for each index."""
    return n.emit(Gather(0), n.value("weight"), n.value("indices"))


@aten(
    "embedding_bag.default",
    "embedding_bag.padding_idx",
    "_embedding_bag.default",
    "_embedding_bag_forward_only.default",
)
def embedding_bag(n: TorchNode) -> Sequence[Value | None]:
    """Rows, combined by bag; further results are for gradients."""
    if any(n.is_read(i) for i in (1, 2, 3)):
        raise n.fail("only the first result of an embedding bag is supported")
    weight, indices = n.value("weight"), as_dtype(n, n.value("indices"), i64)
    bags, bag = _bags(n, indices)
    rows = n.emit(Gather(0), weight, indices)
    scales = n.optional("per_sample_weights")
    if scales is not None:
        rows = n.emit(Mul(), rows, n.emit(Reshape((*scales.type.shape, 1)), scales))
    counts = _counts(n, indices, weight)
    shape = (bags, weight.type.shape[1])
    if n.argument("mode") == _MAX:
        return (_largest(n, rows, counts, bag, shape),)
    if counts is not None:
        rows = n.emit(Mul(), rows, counts)
    zeros = n.emit(Fill(shape, 0.0, rows.type.dtype))
    total = n.emit(ScatterND(ScatterReduction.ADD), zeros, bag, rows)
    if n.argument("mode") == _SUM:
        return (total,)
    return (n.emit(Div(), total, _sizes(n, counts, bag, bags, rows)),)


def _bags(n: TorchNode, indices: Value) -> tuple[int, Value]:
    """How many bags there are, and that of each index: the last one that starts before it."""
    offsets = as_dtype(n, n.value("offsets"), i64)
    (count,) = n.extents(offsets, 1)
    places = n.emit(Iota((*n.extents(indices, 1), 1), 0, i64))
    started = as_dtype(n, n.emit(LessEqual(), offsets, places), i64)
    bag = n.emit(Sub(), n.emit(ReduceSum((1,)), started), n.integers_of((1,), ()))
    return count - 1 if n.flag("include_last_offset") else count, bag


def _counts(n: TorchNode, indices: Value, weight: Value) -> Value | None:
    """1 for each index that counts, 0 for padding; None if all count."""
    padding = n.argument("padding_idx")
    if padding is None or (padding < 0 and n.proto.op_type != "embedding_bag.padding_idx"):
        return None
    if padding < 0:
        padding += weight.type.shape[0]
    counts = n.emit(Not(), n.emit(Equal(), indices, n.constant(np.array(padding, np.int64))))
    return n.emit(Reshape((*counts.type.shape, 1)), as_dtype(n, counts, weight.type.dtype))


def _sizes(n: TorchNode, counts: Value | None, bag: Value, bags: int, rows: Value) -> Value:
    """How many rows each bag has, at least 1."""
    dtype = rows.type.dtype
    ones = n.emit(Fill((rows.type.shape[0], 1), 1.0, dtype)) if counts is None else counts
    zeros = n.emit(Fill((bags, 1), 0.0, dtype))
    sizes = n.emit(ScatterND(ScatterReduction.ADD), zeros, bag, ones)
    return n.emit(Max(), sizes, scalar(n.builder, 1, sizes))


def _largest(
    n: TorchNode, rows: Value, counts: Value | None, bag: Value, shape: tuple[int, ...]
) -> Value:
    """The largest elements of each bag; 0 for those without any."""
    lowest = scalar(n.builder, -np.inf, rows)
    if counts is not None:
        padding = n.emit(Equal(), counts, scalar(n.builder, 0, counts))
        rows = n.emit(Where(), padding, lowest, rows)
    start = n.emit(Fill(shape, -np.inf, rows.type.dtype))
    found = n.emit(ScatterND(ScatterReduction.MAX), start, bag, rows)
    empty = n.emit(Equal(), found, lowest)
    return n.emit(Where(), empty, scalar(n.builder, 0, found), found)
