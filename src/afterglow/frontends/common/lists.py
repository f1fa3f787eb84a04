"""Lists that the body of a loop appends to: ONNX sequences of tensors of one type.

A body returns rows, and which of them there are. So branches that append return as many rows as the
longest of them, a loop stacks what its iterations return, and only what reads the list behind all
loops has to know how many rows there are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterglow.frontends.definition.context import (
    Imported,
    NodeContext,
    RowList,
    StaticSequence,
)
from afterglow.frontends.definition.problems import NeedsInliningError
from afterglow.graph import Value
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Where
from afterglow.ops.fill import Fill
from afterglow.ops.indexing import ScatterND
from afterglow.ops.movement import Concat, Expand, Reshape, Transpose, slice_axis
from afterglow.ops.reduction import CumSum, ReduceSum
from afterglow.ops.rules import normal_axis
from afterglow.types.dtype import boolean, i64


def row_list(n: NodeContext, elements: StaticSequence) -> RowList:
    """A sequence whose elements are known, as rows."""
    if not elements:
        return RowList()
    if len({element.type for element in elements}) > 1:
        raise NeedsInliningError("a list has elements of different types")
    return RowList(((_joined(n, [_as_row(n, each) for each in elements]), None),))


def appended(n: NodeContext, rows: RowList, x: Value, *, is_before: bool = False) -> RowList:
    """A list with one more element at its end, or before all others."""
    return extended(rows, _as_row(n, x), None, is_before=is_before)


def extended(rows: RowList, part: Value, present: Value | None, *, is_before: bool) -> RowList:
    """A list with further rows at one of its ends."""
    found = rows.with_part(part, present, is_before=is_before)
    if found is None:
        raise NeedsInliningError("a list grows at both ends")
    return found


def _as_row(n: NodeContext, x: Value) -> Value:
    return n.emit(Reshape((1, *x.type.shape)), x)


def _joined(n: NodeContext, parts: Sequence[Value]) -> Value:
    if len({part.type.with_shape(part.type.shape[1:]) for part in parts}) > 1:
        raise NeedsInliningError("a list has elements of different types")
    return parts[0] if len(parts) == 1 else n.emit(Concat(0), *parts)


def whole_list(n: NodeContext, rows: RowList) -> tuple[Value, Value | None] | None:
    """All rows of a list, and which of them there are; None if nothing was ever appended."""
    if rows.base is not None:
        raise NeedsInliningError("a list is read in the loop that appends to it")
    if not rows.parts:
        return None
    given = [part for part, _ in rows.parts]
    if all(present is None for _, present in rows.parts):
        return _joined(n, given), None
    flags = [_all_present(n, part) if flag is None else flag for part, flag in rows.parts]
    return _joined(n, given), _joined(n, flags)


def compact_rows(n: NodeContext, rows: RowList) -> tuple[Value, Value | None] | None:
    """The rows of a list one behind the other, and how many there are; None for all of them."""
    found = whole_list(n, rows)
    if found is None or found[1] is None:
        return found
    given, flags = found
    most, *element = given.type.shape
    counts = n.emit(Cast(i64), flags)
    before = n.emit(CumSum(0, exclusive=True), counts)
    dropped = n.emit(Expand((most,)), n.integers_of((most,), (1,)))  # the place behind all of them
    places = n.emit(Reshape((most, 1)), n.emit(Where(), flags, before, dropped))
    room = n.emit(Fill((most + 1, *element), 0.0, given.type.dtype))
    total = n.emit(Reshape((1,)), n.emit(ReduceSum((0,)), counts))
    return n.emit(ScatterND(), room, places, given), total


def _all_present(n: NodeContext, rows: Value) -> Value:
    return n.emit(Fill((rows.type.shape[0],), 1.0, boolean))


def present_rows(n: NodeContext, rows: RowList) -> Value:
    """Those rows of a list that there are, as one tensor; it must be known which they are."""
    found = whole_list(n, rows)
    if found is None:
        raise n.fail("an empty sequence cannot be joined")
    given, flags = found
    if flags is None:
        return given
    known = n.value_of(flags)
    if known.all():
        return given
    data = n.value_of(given)
    return n.constant(data[known])


def elements_of(n: NodeContext, rows: RowList) -> StaticSequence:
    """The elements of a list one by one; there must be a known number of them."""
    if rows.base is None and not rows.parts:
        return StaticSequence()
    found = present_rows(n, rows)
    shape = found.type.shape
    return StaticSequence(
        n.emit(Reshape(shape[1:]), n.emit(slice_axis(found.type, 0, place, 1), found))
        for place in range(shape[0])
    )


def settled(n: NodeContext, value: Imported | None) -> Imported | None:
    """A value as anything may read it: of a list that nothing appends to, the elements."""
    is_whole = isinstance(value, RowList) and value.base is None
    return elements_of(n, value) if isinstance(value, RowList) and is_whole else value


def length_of(n: NodeContext, rows: RowList) -> Value:
    """How many elements a list has."""
    found = whole_list(n, rows)
    if found is None:
        return n.constant(np.array(0))
    given, flags = found
    if flags is None:
        return n.integers_of(given.type.shape[:1], ())
    return n.emit(Reshape(()), n.emit(ReduceSum((0,)), n.emit(Cast(i64), flags)))


def concatenated(n: NodeContext, rows: RowList, axis: int, *, is_new: bool) -> Value:
    """The elements of a list along an axis, or along a new one."""
    found = present_rows(n, rows)
    rank = found.type.rank - 1
    element = found.type.with_shape(found.type.shape[1:])
    axis = axis % (rank + 1) if is_new else normal_axis(axis, element)
    order = (*range(1, axis + 1), 0, *range(axis + 1, rank + 1))
    moved = found if axis == 0 else n.emit(Transpose(order), found)
    if is_new:
        return moved
    shape = moved.type.shape
    merged = shape[axis] * shape[axis + 1]
    return n.emit(Reshape((*shape[:axis], merged, *shape[axis + 2 :])), moved)
