"""Lists as results of branches and loops: rows, and which of them there are, of each body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from afterglow.frontends.common.lists import extended, row_list
from afterglow.frontends.definition.context import (
    Imported,
    ImportedBody,
    NodeContext,
    RowList,
    StaticSequence,
)
from afterglow.frontends.definition.problems import NeedsInliningError
from afterglow.graph import Builder, Function, Value
from afterglow.ops.elementwise import Less
from afterglow.ops.fill import Fill
from afterglow.ops.indexing import Iota
from afterglow.ops.movement import Concat, Expand, Reshape, slice_axis
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import TensorType
from afterglow.types.dtype import boolean, i64


class BodyRows:
    """What a body appends to one list, as further results of its function."""

    def __init__(self, body: ImportedBody, place: int) -> None:
        self.function: Function = body.subgraph.function
        self.list = body.lists[place]
        self.base = self.list.base
        self.is_before = self.list.is_before
        self._builder = Builder(self.function)

    @property
    def type(self) -> TensorType | None:
        """The type of all rows together; None if there are none."""
        types = [rows.type for rows, _ in self.list.parts]
        if not types:
            return None
        if len({type.with_shape(type.shape[1:]) for type in types}) > 1:
            raise NeedsInliningError("a list has elements of different types")
        return types[0].with_shape((sum(t.shape[0] for t in types), *types[0].shape[1:]))

    @property
    def is_certain(self) -> bool:
        """Whether all rows are always there."""
        return all(flags is None for _, flags in self.list.parts)

    def output(self, type: TensorType, *, flags: bool) -> None:
        """Return rows of a type, which may be more than there are, and which of them there are."""
        own = self.type
        missing = type.shape[0] - (0 if own is None else own.shape[0])
        rows = [rows for rows, _ in self.list.parts]
        present = [self._flags(rows, flags) for rows, flags in self.list.parts]
        if missing:
            filler = type.with_shape((missing, *type.shape[1:]))
            rows.append(self._builder.emit(Fill(filler.shape, 0.0, type.dtype)))
            present.append(self._builder.emit(Fill((missing,), 0.0, boolean)))
        self.function.output(f"\0rows{len(self.function.outputs)}", self._joined(rows))
        if flags:
            self.function.output(f"\0flags{len(self.function.outputs)}", self._joined(present))

    def _flags(self, rows: Value, flags: Value | None) -> Value:
        shape = (rows.type.shape[0],)
        return self._builder.emit(Fill(shape, 1.0, boolean)) if flags is None else flags

    def _joined(self, parts: Sequence[Value]) -> Value:
        return parts[0] if len(parts) == 1 else self._builder.emit(Concat(0), *parts)


def stacked_part(
    n: NodeContext, rows: Value, flags: Value | None, count: Value | None, *, is_before: bool
) -> tuple[Value, Value | None]:
    """What iterations appended, each some rows, as one part of a list.

    What `is_before` others has the last iteration first. `count` is the number of iterations if
    there may be fewer than there are rows for.
    """
    most, each, *element = rows.type.shape
    if flags is None and count is not None:
        numbers = n.emit(Iota((most,), 0, i64))
        ran = n.emit(Less(), numbers, n.emit(Expand((most,)), count))
        flags = n.emit(Expand((most, each)), n.emit(Reshape((most, 1)), ran))
    if is_before:
        rows, flags = _reversed(n, rows), None if flags is None else _reversed(n, flags)
    joined = n.emit(Reshape((most * each, *element)), rows)
    return joined, None if flags is None else n.emit(Reshape((most * each,)), flags)


def _reversed(n: NodeContext, x: Value) -> Value:
    length = x.type.shape[0]
    return n.emit(slice_axis(x.type, 0, length - 1, length, -1), x) if length else x


@dataclass(frozen=True)
class BranchLists:
    """What two branches append to lists."""

    outputs: int
    """How many values a branch returns, lists among them."""
    bases: Mapping[int, RowList]
    """By their places, the lists that they continue."""
    longer: Mapping[int, bool]
    """The places at which something is appended, and whether that is before all others."""

    @staticmethod
    def of(one: ImportedBody, other: ImportedBody) -> BranchLists:
        """Have both branches return the same number of rows."""
        if one.lists.keys() != other.lists.keys():
            raise NeedsInliningError("the branches return different types")
        outputs = len(one.subgraph.function.outputs) + len(one.lists)
        bases, longer = {}, {}
        for place in sorted(one.lists):
            pair = BodyRows(one, place), BodyRows(other, place)
            base = pair[0].base
            if base is None or base.base is None or base is not pair[1].base:
                raise NeedsInliningError("the branches return different lists")
            bases[place] = base
            types = [rows.type for rows in pair if rows.type is not None]
            if len({type.with_shape(type.shape[1:]) for type in types}) > 1:
                raise NeedsInliningError("the branches append elements of different types")
            if types:
                ends = {rows.is_before for rows in pair if rows.type is not None}
                if len(ends) > 1:
                    raise NeedsInliningError("a list grows at both ends")
                longer[place] = ends.pop()
                longest = max(types, key=lambda type: type.shape[0])
                for rows in pair:
                    rows.output(longest, flags=True)
        return BranchLists(outputs, bases, longer)

    def placed(self, results: Sequence[Value]) -> list[Imported]:
        """The results in the order of the branches' own."""
        given, parts = iter(results), iter(results[self.outputs - len(self.bases) :])
        found: list[Imported] = []
        for place in range(self.outputs):
            base = self.bases.get(place)
            if base is None:
                found.append(next(given))
            elif place in self.longer:
                ends = self.longer[place]
                found.append(extended(base, next(parts), next(parts), is_before=ends))
            else:
                found.append(base)
        return found


@dataclass
class LoopLists:
    """What a loop carries: tensors, and lists that its body appends to."""

    carried: Sequence[Value | RowList]
    appended: dict[int, bool] = field(default_factory=dict)
    """The places of lists that become longer, and whether not all of their rows may be there."""
    before: set[int] = field(default_factory=set)
    """The places of those that become longer at their beginning."""

    @staticmethod
    def of(n: NodeContext, carried: Sequence[Imported | None]) -> LoopLists:
        """Carried values, of which each list is a value of its own."""
        found: list[Value | RowList] = []
        for value in carried:
            rows = row_list(n, value) if isinstance(value, StaticSequence) else value
            if isinstance(rows, RowList):
                found.append(RowList(rows.parts, rows.base))
            elif isinstance(rows, Value):
                found.append(rows)
            else:
                raise NeedsInliningError("it carries what is neither a tensor nor a list")
        return LoopLists(found)

    @property
    def count(self) -> int:
        """How many values there are."""
        return len(self.carried)

    @property
    def places(self) -> list[int]:
        """Where tensors are among them."""
        return [place for place, value in enumerate(self.carried) if isinstance(value, Value)]

    @property
    def tensors(self) -> list[Value]:
        """Those that are tensors."""
        return [value for value in self.carried if isinstance(value, Value)]

    def inputs(self, types: Sequence[TensorType]) -> list[TensorType | RowList]:
        """What the body is given: types of tensors, and lists without elements."""
        given = iter(types)
        return [next(given) if isinstance(x, Value) else RowList(base=x) for x in self.carried]

    def append_outputs(self, body: ImportedBody) -> None:
        """Have a body return the rows that it appends."""
        lists = {1 + place: x for place, x in enumerate(self.carried) if isinstance(x, RowList)}
        if body.lists.keys() != lists.keys():
            raise NeedsInliningError("a list is returned in another place")
        for place, given in lists.items():
            rows = BodyRows(body, place)
            if rows.base is not given:
                raise NeedsInliningError("a list is returned in another place")
            if rows.type is not None:
                self.appended[place - 1] = not rows.is_certain
                self.before.update({place - 1} if rows.is_before else ())
                rows.output(rows.type, flags=not rows.is_certain)

    def placed(
        self, n: NodeContext, results: Sequence[Value], own: int, *, is_counted: bool = False
    ) -> list[Imported | None]:
        """The results of the loop in the order of what is carried, then what the body stacks.

        `own` is how much that is. A loop that `is_counted` may have ended before its limit.
        """
        tensors, own_end = len(self.places), len(self.places) + own
        parts = 2 * sum(self.appended.values()) + sum(not x for x in self.appended.values())
        given, rows = iter(results[:tensors]), iter(results[own_end : own_end + parts])
        behind = results[own_end + parts :]
        lengths = dict(zip(self.places, behind[1:], strict=False))
        count = behind[0] if is_counted and behind else None
        found: list[Imported | None] = []
        for place, value in enumerate(self.carried):
            if isinstance(value, Value):
                found.append(next(given))
            elif place in self.appended:
                stacked, flags = next(rows), next(rows) if self.appended[place] else None
                ends = place in self.before
                part = stacked_part(n, stacked, flags, count, is_before=ends)
                found.append(extended(value, *part, is_before=ends))
            else:
                found.append(value)
        found += [*results[tensors:own_end], *behind[:1]]
        if not lengths:
            return found
        return [*found, *(lengths.get(place) for place in range(self.count))]
