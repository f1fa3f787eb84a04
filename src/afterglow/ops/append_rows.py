"""Rows appended where data say that earlier ones end, as in the cache of a decoder."""

from __future__ import annotations

import numpy as np

from afterglow.graph import Builder, Op, Value, op
from afterglow.ops.elementwise import Add, Less, Max, Min, Sub, Where, scalar
from afterglow.ops.extents import Extents
from afterglow.ops.indexing import Gather, Iota, ScatterND
from afterglow.ops.movement import Concat, Expand, Reshape, slice_axis
from afterglow.ops.rules import require, require_dtype, require_rank, require_same_dtype
from afterglow.types import Array, TensorType
from afterglow.types.dtype import i64
from afterglow.types.extent import is_ranged, undecided


@op("append_rows")
class AppendRows(Op):
    """The first rows of past, as many as starts says, then those of new, then zeros: `rows` in all.

    Tensors are [batch, heads, rows, width]; each of the batch has a start of its own.
    """

    rows: int

    def infer(self, past: TensorType, new: TensorType, starts: TensorType) -> TensorType:
        """Like past and new but for the number of rows."""
        require_same_dtype(past=past, new=new)
        require_rank(4, past=past, new=new)
        require_dtype(i64, starts=starts)
        batch, heads, _, width = new.shape
        fits = past.shape == (batch, heads, past.shape[2], width) and starts.shape == (batch,)
        require(fits, f"past is {past}, new is {new}, starts is {starts}")
        return new.with_shape((batch, heads, self.rows, width))

    def evaluate(self, past: Array, new: Array, starts: Array) -> Array:
        """Row by row; what lies outside of the result is left out."""
        batch, heads, count, width = new.shape
        out = np.zeros((batch, heads, self.rows, width), new.dtype)
        both = np.concatenate((past, new), 2)
        for one, start in enumerate(starts):
            for row in range(min(max(int(start) + count, 0), self.rows)):
                source = row if row < start else row - int(start) + past.shape[2]
                out[one, :, row] = both[one, :, min(max(source, 0), both.shape[2] - 1)]
        return out

    def lower(self, b: Builder, past: Value, new: Value, starts: Value) -> Value:
        """Each batch takes rows of both by their places."""
        batch, _, count, _ = new.type.shape
        held = past.type.shape[2]
        place = b.emit(Iota((1, self.rows), 1, i64))
        start = b.emit(Reshape((batch, 1)), starts)
        behind = b.emit(Add(), b.emit(Sub(), place, start), _whole(b, held))
        source = b.emit(Where(), b.emit(Less(), place, start), place, behind)
        last = b.emit(Min(), source, _whole(b, held + count - 1))
        taken = _taken(b, b.emit(Concat(2), past, new), b.emit(Max(), last, _whole(b, 0)))
        is_there = b.emit(Less(), place, b.emit(Add(), start, _whole(b, count)))
        is_there = b.emit(Reshape((batch, 1, self.rows, 1)), is_there)
        return b.emit(Where(), is_there, taken, scalar(b, 0, taken))


def append_in_place(b: Builder, room: Value, new: Value, starts: Value) -> Value:
    """A room with new rows from the start of each batch on; what is behind them stays."""
    batch, heads, count, _ = new.type.shape
    shape = (batch, heads, count, 1)
    first = b.emit(Reshape((batch, 1, 1, 1)), starts)
    place = b.emit(Add(), first, b.emit(Iota((1, 1, count, 1), 2, i64)))
    place = b.emit(Expand(shape), b.emit(Max(), place, _whole(b, 0)))
    numbers = (b.emit(Iota(shape, axis, i64)) for axis in (0, 1))
    return b.emit(ScatterND(), room, b.emit(Concat(3), *numbers, place), new)


def _taken(b: Builder, x: Value, source: Value) -> Value:
    """Rows of x [batch, heads, rows, width] by places [batch, …], each batch by its own."""
    batch, *shape = x.type.shape
    if is_ranged(batch):
        raise undecided("how many caches there are", batch)
    rows = source.type.shape[1]
    parts = []
    for index in range(batch):
        one = b.emit(Reshape(tuple(shape)), b.emit(slice_axis(x.type, 0, index, 1), x))
        places = b.emit(slice_axis(source.type, 0, index, 1), source)
        part = b.emit(Gather(1), one, b.emit(Reshape((rows,)), places))
        parts.append(b.emit(Reshape((1, *part.type.shape)), part))
    return parts[0] if batch == 1 else b.emit(Concat(0), *parts)


def _whole(b: Builder, number: int) -> Value:
    if is_ranged(number):
        return b.emit(Extents((number,), (), i64))
    return b.constant(np.array(number, np.int64), "number")
