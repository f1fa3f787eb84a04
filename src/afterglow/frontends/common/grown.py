"""Tensors that a branch or an inner loop makes longer: rows behind others, counted when they run.

A tensor that grows in one branch only has no static type. Here both branches return as many rows
as the longer one appends, and how many of them count:

    if c: concat(x, new)  else: x   ->   x, and behind it the first (c ? 1 : 0) of `new`

Only the loop that carries the tensor knows where they go: it writes them behind the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from afterglow.frontends.common.data_lengths import join_spans
from afterglow.frontends.definition.context import (
    GrownTensor,
    Imported,
    ImportedBody,
    NodeContext,
)
from afterglow.frontends.definition.model import rows_name
from afterglow.frontends.definition.problems import NeedsInliningError
from afterglow.graph import Builder, Function, Value
from afterglow.ops.elementwise import Add
from afterglow.ops.extents import Extents
from afterglow.ops.fill import Fill
from afterglow.ops.indexing import Iota, ScatterND
from afterglow.ops.movement import Concat, Expand, Reshape, Transpose
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import TensorType
from afterglow.types.dtype import i64
from afterglow.types.extent import is_ranged, larger_extent

_DIFFERENT = "the branches return different types"


def concat_parts(n: NodeContext, axis: int, given: Sequence[Imported | None]) -> GrownTensor:
    """Values joined along an axis, of which some end where only data tell."""
    first, *others = given
    parts: list[Imported | None] = [first, *others]
    base: Value | None = None
    if isinstance(first, Value):
        base, parts = first, others
    elif isinstance(first, GrownTensor) and first.base is not None:
        base, parts = first.base, [replace(first, base=None), *others]
    rows: Value | None = None
    count: int | Value = 0
    most = 0
    for part in join_spans(n, parts, axis):
        own, size = _rows_of(part, axis)
        most += part.most if isinstance(part, GrownTensor) else own.type.shape[axis]
        if rows is None:
            rows, count = own, size
        elif isinstance(count, int):  # all rows so far are there
            rows, count = n.emit(Concat(axis), rows, own), _sum(n, count, size)
        else:
            rows, count = _written(n, rows, own, count, axis), _sum(n, count, size)
    assert rows is not None
    return GrownTensor(base, axis, rows, _counted(n, count), most)


def _rows_of(part: Imported | None, axis: int) -> tuple[Value, int | Value]:
    """What to append of an operand, and how much of it is there."""
    if isinstance(part, Value):
        return part, part.type.shape[axis]
    if isinstance(part, GrownTensor) and part.base is None and part.axis == axis:
        return part.rows, part.count
    raise NeedsInliningError("what is appended has a length that only data tell")


def _written(n: NodeContext, rows: Value, new: Value, at: Value, axis: int) -> Value:
    """Rows with others written from where they end, into room for all of them."""
    rank, extent = rows.type.rank, new.type.shape[axis]
    order = (axis, *(other for other in range(rank) if other != axis))
    room = n.emit(Concat(axis), rows, new)
    room, new = (x if axis == 0 else n.emit(Transpose(order), x) for x in (room, new))
    first = n.emit(Expand((extent,)), n.emit(Reshape((1,)), at))
    places = n.emit(Add(), first, n.emit(Iota((extent,), 0, i64)))
    room = n.emit(ScatterND(), room, n.emit(Reshape((extent, 1)), places), new)
    back = tuple(order.index(other) for other in range(rank))
    return room if axis == 0 else n.emit(Transpose(back), room)


def _counted(n: NodeContext, count: int | Value) -> Value:
    return n.integers_of((count,), ()) if isinstance(count, int) else count


def _sum(n: NodeContext, one: int | Value, other: int | Value) -> int | Value:
    if isinstance(one, int) and isinstance(other, int):
        return one + other
    return n.emit(Add(), _counted(n, one), _counted(n, other))


def first_rows_of_body(n: NodeContext) -> GrownTensor | None:
    """What an inner loop appended or stacked, if a Slice of `rows.py` cuts it; else None."""
    if n.is_driven or not n.graph.frame.is_body or n.proto.input[0] != rows_name(n.proto.output[0]):
        return None
    rows = n.operands[0]
    if isinstance(rows, GrownTensor) or not isinstance(rows, Value):
        return rows if isinstance(rows, GrownTensor) else None
    count = n[2]
    if n.graph.known.elements(count) is not None:
        return None
    axis = n.known_int(3) % rows.type.rank if n.get(3) is not None else 0
    return GrownTensor(None, axis, rows, n.emit(Reshape(()), count))


@dataclass(frozen=True)
class _Appended:
    """What a branch appends: to which outer value, None if its rows are all there is."""

    base: Value | None
    rows: tuple[Value, ...]
    count: int | Value


@dataclass(frozen=True)
class _Place:
    """One result of both branches: along which axis, of how many rows at most."""

    axis: int
    branches: tuple[_Appended, _Appended]

    @property
    def most(self) -> int:
        """The rows that the branches return, some of which may not count."""
        return reduce(larger_extent, (_extent(each.rows, self.axis) for each in self.branches))


class BranchGrowth:
    """What two branches return that becomes longer in them, or in one of them."""

    def __init__(self, bodies: Sequence[ImportedBody]) -> None:
        self.functions: Sequence[Function] = [body.subgraph.function for body in bodies]
        pairs = list(zip(*(results_of(body) for body in bodies), strict=True))
        self.places = {
            place: _grown_place(bodies, pair) for place, pair in enumerate(pairs) if _differ(*pair)
        }
        self.bodies = [_without(body, self.places) for body in bodies]
        self._counts: dict[object, int] = {}

    def append_outputs(self) -> None:
        """Have the branches return rows, then how many of them count; equal counts are one."""
        for place in self.places.values():
            pairs = zip(self.functions, place.branches, strict=True)
            for function, branch in pairs:
                _output_rows(function, branch.rows, place)
        for place in self.places.values():
            key = tuple(branch.count for branch in place.branches)
            if key in self._counts:
                continue
            self._counts[key] = len(self._counts)
            for function, count in zip(self.functions, key, strict=True):
                value = extent_value(function, count) if isinstance(count, int) else count
                function.output(f"\0count{len(function.outputs)}", value)

    @property
    def count(self) -> int:
        """How many results of the branches tell about growth."""
        return len(self.places) + len(self._counts)

    def placed(self, others: Sequence[Imported], results: Sequence[Value]) -> list[Imported]:
        """All results in the order of the branches' own, from the last ones of an If."""
        found = [*others]
        counts = results[len(self.places) :]
        for rows, (index, place) in zip(results, self.places.items(), strict=False):
            count = counts[self._counts[tuple(branch.count for branch in place.branches)]]
            found.insert(index, GrownTensor(place.branches[0].base, place.axis, rows, count))
        return found


def without_base(function: Function, x: GrownTensor) -> GrownTensor:
    """A tensor that grew in a function as one all of which is rows."""
    if x.base is None:
        return x
    b, extent = Builder(function), x.base.type.shape[x.axis]
    count = b.emit(Add(), extent_value(function, extent), x.count)
    rows = b.emit(Concat(x.axis), x.base, x.rows)
    return GrownTensor(None, x.axis, rows, count, extent + x.most)


def extent_value(function: Function, extent: int) -> Value:
    """An extent as a value (i64[]) of a function."""
    b = Builder(function)
    if is_ranged(extent):
        return b.emit(Extents((extent,), (), i64))
    return b.constant(np.array(extent), "extent")


def results_of(body: ImportedBody) -> list[Imported]:
    """What a body returns, in the order of the model."""
    given = iter(body.subgraph.function.outputs)
    others: dict[int, Imported] = {**body.lists, **body.grown}
    total = len(others) + len(body.subgraph.function.outputs)
    return [others[i] if i in others else next(given).value for i in range(total)]


def _differ(one: Imported, other: Imported) -> bool:
    if isinstance(one, Value) and isinstance(other, Value):
        return one.type != other.type
    return isinstance(one, GrownTensor) or isinstance(other, GrownTensor)


def _grown_place(bodies: Sequence[ImportedBody], pair: Sequence[Imported]) -> _Place:
    axis = _axis_of(*pair)
    one, other = (_appended(body, x, axis) for body, x in zip(bodies, pair, strict=True))
    if one.base is not other.base:
        one, other = (_whole(body, x, axis) for body, x in zip(bodies, pair, strict=True))
    if len({_row_type(x, axis) for x in (*one.rows, *other.rows)}) != 1:
        raise NeedsInliningError(_DIFFERENT)
    return _Place(axis, (one, other))


def _axis_of(one: Imported, other: Imported) -> int:
    """The axis along which two results may differ."""
    for x in (one, other):
        if isinstance(x, GrownTensor):
            return x.axis
    assert isinstance(one, Value)
    assert isinstance(other, Value)
    pairs = enumerate(zip(one.type.shape, other.type.shape, strict=False))
    axes = [axis for axis, (own, others) in pairs if own != others]
    if len(axes) != 1 or one.type.rank != other.type.rank or one.type.dtype != other.type.dtype:
        raise NeedsInliningError(_DIFFERENT)
    return axes[0]


def _appended(body: ImportedBody, x: Imported, axis: int) -> _Appended:
    """A result as something with rows behind it, if it begins with an outer value."""
    if isinstance(x, GrownTensor):
        base = None if x.base is None else body.outer(x.base)
        if x.axis != axis:
            raise NeedsInliningError(_DIFFERENT)
        return _whole(body, x, axis) if base is None else _Appended(base, (x.rows,), x.count)
    assert isinstance(x, Value)
    base = body.outer(x)
    if base is not None:
        return _Appended(base, (), 0)
    node = x.producer
    if node is not None and node.op == Concat(axis) and len(node.given) > 1:
        base = body.outer(node.given[0])
        rows = tuple(node.given[1:])
        if base is not None and not is_ranged(_extent(rows, axis)):
            return _Appended(base, rows, _extent(rows, axis))
    return _whole(body, x, axis)


def _whole(body: ImportedBody, x: Imported, axis: int) -> _Appended:
    """A result all of which is rows."""
    if isinstance(x, GrownTensor) and x.axis == axis:
        whole = without_base(body.subgraph.function, x)
        return _Appended(None, (whole.rows,), whole.count)
    if not isinstance(x, Value):
        raise NeedsInliningError(_DIFFERENT)
    return _Appended(None, (x,), x.type.shape[axis])


def _extent(rows: Sequence[Value], axis: int) -> int:
    return sum(x.type.shape[axis] for x in rows)


def _row_type(x: Value, axis: int) -> TensorType:
    shape = x.type.shape
    return x.type.with_shape((*shape[:axis], 1, *shape[axis + 1 :]))


def _output_rows(function: Function, rows: Sequence[Value], place: _Place) -> None:
    """Return rows of a branch, and after them others that do not count."""
    b, axis = Builder(function), place.axis
    (any_row,) = {_row_type(x, axis) for branch in place.branches for x in branch.rows}
    shape = [*any_row.shape]
    shape[axis] = place.most - _extent(rows, axis)
    is_full = not is_ranged(shape[axis]) and not shape[axis]
    parts = [*rows, *([] if is_full else [b.emit(Fill(tuple(shape), 0.0, any_row.dtype))])]
    value = parts[0] if len(parts) == 1 else b.emit(Concat(axis), *parts)
    function.output(f"\0grown{len(function.outputs)}", value)


def _without(body: ImportedBody, places: Mapping[int, _Place]) -> ImportedBody:
    """A body that returns all but what grows, and with its lists at the places left."""
    before = [place for place in range(len(results_of(body))) if place not in body.grown]
    function = body.subgraph.function
    own = [place for place in before if place not in body.lists]
    function.outputs = [
        output for place, output in zip(own, function.outputs, strict=True) if place not in places
    ]
    lists = {
        place - sum(other < place for other in places): value for place, value in body.lists.items()
    }
    return ImportedBody(body.subgraph, body.captured, lists, {})
