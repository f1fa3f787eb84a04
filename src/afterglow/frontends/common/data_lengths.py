"""Parts of tensors of which only data tell how long they are, in the bodies of loops.

They are rows, as many as there may be, and how many of them count: what reads them is a rest of
the body that runs with that number as a dimension (`rest.py`).

    x[start : start + n]  ->  the first n of x[start], x[start + 1] …
    nonzero(mask)         ->  the first sum(mask) of the places, those that hold before all others
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from afterglow.frontends.definition.context import GrownTensor, NodeContext
from afterglow.graph import Value
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, Div, Less, Max, Min, Mod, Sub, Where
from afterglow.ops.fill import Fill
from afterglow.ops.indexing import Gather, Iota, ScatterND
from afterglow.ops.movement import Concat, Expand, Reshape, Slice, slice_axis
from afterglow.ops.reduction import CumSum, ReduceSum
from afterglow.types.dtype import boolean, i64
from afterglow.types.extent import is_ranged


def may_have_data_lengths(n: NodeContext) -> bool:
    """Whether a node may return what only data tell the length of."""
    return n.graph.frame.is_in_loop and n.graph.session.data_lengths and not n.is_driven


def slice_by_data(
    n: NodeContext, x: Value, axis: int, start: Value, end: Value
) -> GrownTensor | None:
    """The part of x between two bounds (i64[]) along an axis, cut as ONNX says."""
    extent = x.type.shape[axis]
    if not is_ranged(extent) and extent == 0:
        return None
    first, last = (_counted(n, bound, extent) for bound in (start, end))
    zero = n.constant(np.array(0))
    count = n.emit(Max(), n.emit(Sub(), last, first), zero)
    known = n.value_if_known(start)
    if known is not None and known.item() == 0:
        return GrownTensor(None, axis, x, count)
    begins = n.emit(Expand((extent,)), n.emit(Reshape((1,)), first))
    places = n.emit(Add(), begins, n.emit(Iota((extent,), 0, i64)))
    return GrownTensor(None, axis, n.emit(Gather(axis), x, _inside(n, places, extent)), count)


def _counted(n: NodeContext, bound: Value, extent: int) -> Value:
    """A bound counted from the first element, and limited."""
    whole, zero = n.integers_of((extent,), ()), n.constant(np.array(0))
    from_end = n.emit(Add(), bound, whole)
    counted = n.emit(Where(), n.emit(Less(), bound, zero), from_end, bound)
    return n.emit(Min(), n.emit(Max(), counted, zero), whole)


def _inside(n: NodeContext, places: Value, extent: int) -> Value:
    """Places along an axis, of which those behind its end do not count."""
    last = n.emit(Expand(places.type.shape), n.integers_of((extent - 1,), (1,)))
    return n.emit(Min(), places, last)


def slice_bounds_by_data(
    n: NodeContext, elements: Sequence[Any], bounds: Value, place: int
) -> Value:
    """One of the bounds of a slice (i64[])."""
    if elements[place] is not None:
        return n.integers_of((elements[place],), ())
    one = n.emit(slice_axis(bounds.type, 0, place, 1), bounds) if bounds.type.size > 1 else bounds
    scalar = n.emit(Reshape(()), one)
    return scalar if scalar.type.dtype is i64 else n.emit(Cast(i64), scalar)


def non_zero_by_data(n: NodeContext, x: Value) -> GrownTensor | None:
    """The places of elements that are not 0, a column for each."""
    shape, size = x.type.shape, x.type.size
    if not shape or (not is_ranged(size) and size == 0):
        return None
    flags = n.emit(Reshape((size,)), x)
    flags = flags if flags.type.dtype is boolean else n.emit(Cast(boolean), flags)
    places, count = _places(n, flags, size)
    rows, rest = [], places
    for extent in reversed(shape[1:]):
        divisor = n.emit(Expand((size,)), n.integers_of((extent,), (1,)))
        rows.append(n.emit(Mod(), rest, divisor))
        rest = n.emit(Div(), rest, divisor)
    columns = [n.emit(Reshape((1, size)), row) for row in (rest, *reversed(rows))]
    found = columns[0] if len(columns) == 1 else n.emit(Concat(0), *columns)
    return GrownTensor(None, 1, found, count)


def compress_by_data(n: NodeContext, x: Value, axis: int, condition: Value) -> GrownTensor | None:
    """The parts of x along an axis where a condition holds."""
    extent, given = x.type.shape[axis], condition.type.size
    if not is_ranged(given) and given == 0:
        return None
    longer = given - extent
    if is_ranged(longer) or longer > 0:
        return None
    places, count = _places(n, n.emit(Reshape((given,)), condition), given)
    return GrownTensor(None, axis, n.emit(Gather(axis), x, places), count)


def _places(n: NodeContext, flags: Value, size: int) -> tuple[Value, Value]:
    """Where flags are set, with zeros behind these places, and how many they are."""
    counts = n.emit(Cast(i64), flags)
    before = n.emit(CumSum(0, exclusive=True), counts)
    dropped = n.emit(Expand((size,)), n.integers_of((size,), (1,)))  # the place behind all of them
    targets = n.emit(Reshape((size, 1)), n.emit(Where(), flags, before, dropped))
    room = n.emit(Fill((size + 1,), 0.0, i64))
    found = n.emit(ScatterND(), room, targets, n.emit(Iota((size,), 0, i64)))
    count = n.emit(Reshape(()), n.emit(ReduceSum((0,)), counts))
    return n.emit(Slice((0,), (size,), (1,)), found), count
