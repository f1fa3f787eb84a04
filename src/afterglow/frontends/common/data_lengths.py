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

from afterglow.frontends.definition.context import GrownTensor, Imported, NodeContext, Span
from afterglow.graph import Node, Value
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, Div, Less, Max, Min, Mod, Sub, Where
from afterglow.ops.fill import Fill
from afterglow.ops.indexing import Gather, Iota, ScatterND
from afterglow.ops.linear_forms import Condition, Interval, LinearForm
from afterglow.ops.movement import Concat, Expand, Reshape, Slice, slice_axis
from afterglow.ops.reduction import CumSum, ReduceSum
from afterglow.ops.search import ArgMax, ArgMin
from afterglow.types.dtype import boolean, i64
from afterglow.types.extent import is_ranged, smallest


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
    known, span = n.value_if_known(start), Span(x, start, end)
    if known is not None and known.item() == 0:
        return GrownTensor(None, axis, x, count, span=span)
    begins = n.emit(Expand((extent,)), n.emit(Reshape((1,)), first))
    places = n.emit(Add(), begins, n.emit(Iota((extent,), 0, i64)))
    rows = n.emit(Gather(axis), x, _inside(n, places, extent))
    return GrownTensor(None, axis, rows, count, span=span)


def join_spans(
    n: NodeContext, parts: Sequence[Imported | None], axis: int
) -> list[Imported | None]:
    """Parts to be joined, of which two are one where they are a tensor without some rows.

    So it is known that both together are no longer than the tensor: x[:i] and x[i + 1:].
    """
    found: list[Imported | None] = []
    for part in parts:
        before = found[-1] if found else None
        gap = _gap_between(n, before, part)
        if gap is None:
            found.append(part)
        else:
            assert isinstance(before, GrownTensor)
            assert isinstance(part, GrownTensor)
            found[-1] = _without_rows(n, before, part, gap)
    return found


def _gap_between(n: NodeContext, one: Imported | None, other: Imported | None) -> int | None:
    """How many rows lie between the first ones of a tensor and others; None if they may overlap."""
    if not isinstance(one, GrownTensor) or not isinstance(other, GrownTensor):
        return None
    if one.span is None or other.span is None or one.span.source is not other.span.source:
        return None
    first = n.value_if_known(one.span.start)
    forms = n.graph.session.forms
    ends, starts = forms.of(one.span.end), forms.of(other.span.start)
    if first is None or first.item() != 0 or not ends or not starts or one.axis != other.axis:
        return None
    gap = starts[0] - ends[0]
    conditions = [c for each in (one.span.end, other.span.start) for c in forms.conditions_of(each)]
    conditions.append(Condition(ends[0], Interval(0)))
    if gap.terms or gap.constant < 0 or not all(map(forms.holds, conditions)):
        return None
    return gap.constant


def _without_rows(n: NodeContext, one: GrownTensor, other: GrownTensor, gap: int) -> GrownTensor:
    """The first rows of a tensor and those behind a gap."""
    assert one.span is not None
    x, axis = one.span.source, one.axis
    extent = whole = x.type.shape[axis]
    if gap == 1 and smallest(whole) > 0 and _is_place(n, one.span.end, whole):
        extent = whole - 1
    if not is_ranged(extent) and extent == 0:
        extent = whole
    places = n.emit(Iota((extent,), 0, i64))
    ends, gaps = (
        n.emit(Expand((extent,)), n.emit(Reshape((1,)), each))
        for each in (one.count, n.constant(np.array(gap)))
    )
    is_before = n.emit(Less(), places, ends)
    places = n.emit(Where(), is_before, places, n.emit(Add(), places, gaps))
    rows = n.emit(Gather(axis), x, _inside(n, places, whole))
    return GrownTensor(None, axis, rows, n.emit(Add(), one.count, other.count))


def _is_place(n: NodeContext, value: Value, extent: int) -> bool:
    """Whether an integer is the place of an element among so many."""
    (form,) = n.graph.session.forms.of(value) or (LinearForm(0),)
    if form.constant or list(form.terms.values()) != [1]:
        return False
    ((unknown, _),) = form.terms
    match unknown.producer:
        case Node(ArgMax(axis) | ArgMin(axis), [Value() as x]):
            return x.type.shape[axis] == extent
    return False


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
