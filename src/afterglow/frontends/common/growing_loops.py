"""Loops whose carried values become longer in an iteration, as caches do.

Such a loop carries memory with room for the longest value there may be, and in the body extents are
expressions over a dimension that stands for the number of the iteration:

    f32[s, 8] becomes f32[s + 1, 8]  ->  f32[s + i, 8] is the beginning of f32[512 + 32, 8]

Where data tell how much longer (`grown.py`), the loop carries that, too, and another dimension
stands for it:

    f32[s, 8] becomes f32[s, 8] and n rows  ->  f32[s + g, 8], and g becomes g + n

Where it is another value each time, of which data tell how long it is, that dimension is its
length:

    f32[s, 8] becomes the first n rows of something  ->  f32[g, 8], and g becomes n
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from afterglow.frontends.common.ending import holds_for_some
from afterglow.frontends.common.grown import extent_value, without_base
from afterglow.frontends.definition.context import (
    GrownTensor,
    Imported,
    ImportedBody,
    NodeContext,
)
from afterglow.frontends.definition.model import CUT_AXES
from afterglow.frontends.definition.problems import ChangesTypesError, GrowthStep
from afterglow.graph import Builder, Function, Value
from afterglow.graph.function import Output
from afterglow.ops.elementwise import Add, Mul
from afterglow.ops.fill import Fill
from afterglow.ops.growing import grow_in_place, room_type
from afterglow.ops.movement import Concat, Reshape, slice_axis
from afterglow.ops.overwrite import Overwrite
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import TensorType
from afterglow.types.dtype import i64, string
from afterglow.types.extent import (
    Dim,
    dims_of,
    inner_dim,
    is_ranged,
    larger_extent,
    largest,
    ranged,
    smallest,
)

MOST_ROOM_BYTES = 2**28
"""What values that grow may take at most: if it is more, the host drives the loop."""

CHANGED = "carried values change their types"

Steps = Sequence[GrowthStep | None]
"""For each carried value how it grows; None: it stays."""


@dataclass(frozen=True)
class Told:
    """What data tell of a carried tensor: how many rows of it count, along an axis.

    These are rows behind those that it had before; all of it if it `is_whole`.
    """

    axis: int
    count: Value
    is_whole: bool
    most: int
    """An extent that the count does not exceed."""
    ends_at_none: bool = False
    """Whether the loop ends once the count is 0."""


def return_grown(body: ImportedBody, places: Sequence[int]) -> dict[int, Told]:
    """Have a body return carried tensors with all rows that they may have.

    `places` says where tensors are among what is carried. Returns what data tell of them, by their
    numbers among the tensors.
    """
    function, told = body.subgraph.function, dict[int, Told]()
    numbers = {1 + place: number for number, place in enumerate(places)}
    for place, grown in sorted(body.grown.items()):
        number = numbers.get(place)
        if number is None:
            raise ChangesTypesError("what it stacks has different shapes in iterations")
        past = function.inputs[1 + number]
        is_whole = grown.base is not past
        if is_whole:
            grown = without_base(function, grown)
            present = grown.rows
        else:
            present = Builder(function).emit(Concat(grown.axis), past, grown.rows)
        function.outputs.insert(1 + number, Output(f"\0grown{number}", present))
        ends = is_whole and holds_for_some(function.outputs[0].value, grown.count)
        told[number] = Told(grown.axis, grown.count, is_whole, grown.most, ends)
    return told


def tell_lengths(function: Function, steps: Steps, told: dict[int, Told]) -> None:
    """Add what a body's types tell of values that are others each time."""
    counts: dict[int, Value] = {}
    for number, step in enumerate(steps):
        if step is not None and step.is_whole and number not in told:
            type = function.outputs[1 + number].value.type
            if step.axis >= type.rank:
                raise ChangesTypesError(CHANGED)
            extent = type.shape[step.axis]
            if extent not in counts:
                counts[extent] = extent_value(function, extent)
            told[number] = Told(step.axis, counts[extent], True, extent)


def first_steps(
    types: Sequence[TensorType], returned: Sequence[TensorType], told: Mapping[int, Told]
) -> Steps:
    """How values grow that have these types in the first iteration, and others behind it."""
    steps: list[GrowthStep | None] = []
    groups: dict[object, int] = {}
    for number, (old, new) in enumerate(zip(types, returned, strict=False)):
        found = told.get(number)
        if old == new and found is None:
            steps.append(None)
            continue
        axis = _changing_axis(old, new) if found is None else found.axis
        by = _growth_along(axis, old, new)
        is_whole = found.is_whole if found is not None else is_ranged(by) or by < 0
        if found is not None and is_whole:
            by = found.most - old.shape[axis]
        step = GrowthStep(axis, largest(larger_extent(0, by)) if is_whole else by)
        if is_whole or found is not None:
            kind = (is_whole, old.shape[axis] if is_whole else 0)
            step = replace(step, group=groups.setdefault(kind, len(groups)), is_whole=is_whole)
        if found is not None and found.ends_at_none and smallest(old.shape[axis]) > 0:
            shrinks = max(0, -largest(found.most - old.shape[axis]))
            step = replace(step, ends_at_none=True, shrinks=shrinks)
        steps.append(step)
    return steps


def _changing_axis(old: TensorType, new: TensorType) -> int:
    """The axis along which two types differ."""
    if old.rank != new.rank or old.dtype != new.dtype:
        raise ChangesTypesError(CHANGED)
    axes = [axis for axis in range(old.rank) if old.shape[axis] != new.shape[axis]]
    if len(axes) != 1:
        raise ChangesTypesError(CHANGED)
    return axes[0]


def _growth_along(axis: int, old: TensorType, new: TensorType) -> int:
    """By how much a type is longer than another one, which differ along an axis at most."""
    if old != new and _changing_axis(old, new) != axis:
        raise ChangesTypesError(CHANGED)
    return new.shape[axis] - old.shape[axis]


@dataclass(frozen=True)
class LoopGrowth:
    """How the carried values of a loop grow, from their first types, for so many iterations."""

    steps: Steps
    first: Sequence[TensorType]
    most: int
    """How many iterations there are at most."""
    iteration: int
    """The dimension that is the number of the iteration."""
    lengths: tuple[int, ...]
    """The dimensions that are, for each group, how much longer its values are than at first.

    For values that are others each time, it is how long they are.
    """

    @staticmethod
    def of(steps: Steps, first: Sequence[TensorType], most: int, name: str) -> LoopGrowth:
        """The growth of values within memory of bounded size, or why there is none."""
        if len(steps) != len(first) or any(
            step and step.axis >= type.rank for step, type in zip(steps, first, strict=True)
        ):
            raise ChangesTypesError(CHANGED)
        if any(step and type.dtype is string for step, type in zip(steps, first, strict=True)):
            raise ChangesTypesError("a list of texts that it carries grows")
        each: dict[int, int] = {}
        for step, type in zip(steps, first, strict=True):
            if step is not None and step.group is not None:
                start = largest(type.shape[step.axis]) if step.is_whole else 0
                longest = start + max(most - 1, 0) * step.by
                each[step.group] = max(longest, each.get(step.group, 0))
        some = {step.group for step in steps if step is not None and step.ends_at_none}
        lengths = tuple(
            ranged(inner_dim(f"{name}.grown{group}", each[group], int(group in some)))
            for group in sorted(each)
        )
        iteration = ranged(Dim(f"{name}.iteration", 0, most - 1)) if most else 0
        growth = LoopGrowth(steps, first, most, iteration, lengths)
        if most < 2 or sum(type.nbytes for type in growth.longest) > MOST_ROOM_BYTES:
            raise ChangesTypesError("values that it carries may grow too large")
        return growth

    @staticmethod
    def bounded(trips: float, steps: Steps, first: Sequence[TensorType]) -> float:
        """How often a loop runs at most that ends once a value which shrinks has no element."""
        for step, type in zip(steps, first, strict=False):
            if step is not None and step.shrinks:
                trips = min(trips, -(-largest(type.shape[step.axis]) // step.shrinks))
        return trips

    @property
    def before(self) -> list[TensorType]:
        """What the values are when an iteration begins."""
        return self._types(self.iteration, lambda _, length: length)

    @property
    def returned(self) -> list[TensorType]:
        """What an iteration returns, with rows that may not count."""
        return self._types(self.iteration + 1, lambda step, length: length + step.by)

    @property
    def longest(self) -> list[TensorType]:
        """What there must be room for."""
        return self.after(self.most)

    def after(self, iterations: int) -> list[TensorType]:
        """What the values are after some iterations, with rows that may not count."""
        return self._types(iterations, lambda step, length: largest(length) + step.by)

    def _types(self, iterations: int, told: Callable[[GrowthStep, int], int]) -> list[TensorType]:
        """Types that are longer than the first: by the iterations, or by what data told so far."""
        types = []
        for type, step in zip(self.first, self.steps, strict=True):
            if step is None:
                types.append(type)
                continue
            shape = [*type.shape]
            begin = 0 if step.is_whole else shape[step.axis]
            by = step.by * iterations
            if step.group is not None:
                by = told(step, self.lengths[step.group])
            shape[step.axis] = begin + by
            types.append(type.with_shape(shape))
        return types

    def refined(self, returned: Sequence[TensorType], told: Mapping[int, Told]) -> Steps | None:
        """How values grow in another way than was taken for granted; None if they do not.

        Values of a group may grow by different numbers of rows, or be others each time.
        """
        groups: dict[object, int] = {}
        steps: list[GrowthStep | None] = []
        for number, (step, new) in enumerate(zip(self.steps, returned, strict=True)):
            found = told.get(number)
            if not self._is_as_expected(number, new, found):
                step = self._as_whole(number, new, found)
            if step is not None and step.group is not None:
                count = None if found is None else found.count
                start = self.first[number].shape[step.axis] if step.is_whole else 0
                key = (step.group, step.is_whole, start, count)
                step = replace(step, group=groups.setdefault(key, len(groups)))
            steps.append(step)
        return None if steps == [*self.steps] else steps

    def _is_as_expected(self, number: int, new: TensorType, found: Told | None) -> bool:
        step = self.steps[number]
        if found is not None and (step is None or found.is_whole != step.is_whole):
            return False
        if step is None or not step.is_whole:
            is_told = step is not None and step.group is not None
            return new == self.returned[number] and is_told is (found is not None)
        assert found is not None
        room, old = self.longest[number].shape[step.axis], self.before[number]
        new_type, longest = (_with_extent(x, step.axis, room) for x in (new, old))
        if new_type != longest:
            raise ChangesTypesError(CHANGED)
        by = found.most - old.shape[step.axis]
        longest_before = largest(old.shape[step.axis])
        if largest(by) > step.by and largest(found.most) > longest_before:
            raise ChangesTypesError("values that it carries grow faster and faster")
        if largest(by) > -step.shrinks and step.shrinks:
            raise ChangesTypesError(CHANGED)
        if step.ends_at_none and not found.ends_at_none:
            raise ChangesTypesError(CHANGED)
        return True

    def _as_whole(self, number: int, new: TensorType, found: Told | None) -> GrowthStep:
        """A step of a value that is another one each time, where it was taken for a simpler one."""
        step, old = self.steps[number], self.before[number]
        if step is not None and step.is_whole:
            raise ChangesTypesError(CHANGED)
        axis = step.axis if step is not None else None
        if found is not None:
            axis = found.axis
        if axis is None:
            axis = _changing_axis(old, new)
        by = largest(
            _growth_along(axis, old, new) if found is None else found.most - old.shape[axis]
        )
        return GrowthStep(axis, max(by, 0 if step is None else step.by, 0), -1, is_whole=True)

    def check_stacked(self, types: Sequence[TensorType]) -> None:
        """Raise if what iterations return to be stacked does not have the same shape each time."""
        own = set(dims_of(self.iteration, *self.lengths))
        if any(own.intersection(dims_of(extent)) for type in types for extent in type.shape):
            raise ChangesTypesError("what it stacks has different shapes in iterations")

    def make_room(
        self,
        n: NodeContext,
        body: Function,
        carried: Sequence[Value],
        told: Mapping[int, Told],
    ) -> list[Value]:
        """Have a body read and write values in their rooms; what the loop carries at first.

        That is, how much longer the values of each group are, and then the rooms.
        """
        made = []
        for place, (value, longest) in enumerate(zip(carried, self.longest, strict=True), start=1):
            step = self.steps[place - 1]
            if step is None:
                made.append(value)
                continue
            room = room_type(longest, step.axis)
            _read_from_room(body, place, room, step.axis)
            zeros = n.emit(Fill(room.shape, 0.0, room.dtype))
            made.append(n.emit(Overwrite((0,) * room.rank), zeros, value))
        self._carry_lengths(body, told)
        return [*self._first_lengths(n), *made]

    def _first_lengths(self, n: NodeContext) -> list[Value]:
        """What the dimensions are at first that tell how long the values of each group are."""
        starts = {
            step.group: type.shape[step.axis] if step.is_whole else 0
            for step, type in zip(self.steps, self.first, strict=True)
            if step is not None
        }
        return [n.integers_of((starts[group],), ()) for group in range(len(self.lengths))]

    def _carry_lengths(self, body: Function, told: Mapping[int, Told]) -> None:
        """Have a body count how long the values of each group are."""
        by_group = {step.group: told[i] for i, step in enumerate(self.steps) if step and i in told}
        for group in range(len(self.lengths)):
            before = body.input(f"grown{group}", TensorType(i64, ()))
            body.inputs.remove(before)
            body.inputs.insert(1 + group, before)
            after = by_group[group].count
            if not by_group[group].is_whole:
                after = Builder(body).emit(Add(), before, after)
            body.outputs.insert(1 + group, Output(f"\0longer{group}", after))

    def results(self, n: NodeContext, results: Sequence[Value], trips: int) -> tuple[Value, ...]:
        """What a loop returns after so many iterations: values without the rest of their rooms."""
        found = [*results]
        for place, longest in enumerate(self.after(trips)):
            step = self.steps[place]
            if step is not None and step.group is None:
                found[place] = _begin(n, found[place], step.axis, longest.shape[step.axis])
        stacked = range(len(self.steps), len(found) - 1)
        found[stacked.start : stacked.stop] = [_begin(n, found[i], 0, trips) for i in stacked]
        return tuple(found)

    def added(
        self, n: NodeContext, ends: Sequence[Value], count: Value, *, is_counted: bool
    ) -> list[Value | None]:
        """By how much values are longer behind the loop (i64[]); None if their types tell.

        If it `is_counted`, `count` tells how often the loop ran.
        """
        by_iterations: dict[int, Value] = {}
        found: list[Value | None] = []
        for step in self.steps:
            if step is not None and step.group is not None:
                found.append(ends[step.group])
            elif step is None or not is_counted:
                found.append(None)
            else:
                if step.by not in by_iterations:
                    total = n.emit(Mul(), count, n.constant(np.array([step.by])))
                    by_iterations[step.by] = n.emit(Reshape(()), total)
                found.append(by_iterations[step.by])
        return found

    def lengths_behind(
        self,
        n: NodeContext,
        results: Sequence[Value],
        added: Sequence[Value | None],
        places: Sequence[int],
    ) -> list[Value]:
        """How long values are that lie in rooms, each along the axis of which a reader cuts it.

        `places` are those of the values among all that the loop carries.
        """
        axes = () if n.graph.frame.places else n.integers(CUT_AXES, ())  # a body cannot cut
        lengths = []
        for number, (place, step, more) in enumerate(zip(places, self.steps, added, strict=True)):
            cut = axes[place] if axes else 0
            if step is None or more is None:
                lengths.append(_extent(n, results[number].type, cut))
                continue
            first = self.first[number]
            if n.is_read(place) and (not axes or cut % first.rank != step.axis):
                raise ChangesTypesError(
                    "a value that it carries grows, is read behind it, and only data tell how long "
                    "it is then"
                )
            total = n.emit(Reshape((1,)), more)
            if not step.is_whole:
                total = n.emit(Add(), total, _extent(n, first, step.axis))
            lengths.append(total)
        return lengths

    def grown(
        self,
        n: NodeContext,
        carried: Sequence[Value],
        results: Sequence[Value],
        added: Sequence[Value | None],
    ) -> list[Imported]:
        """The results of a loop in a body, which become longer than what they began with."""
        found: list[Imported] = []
        parts = zip(carried, results[: len(added)], self.steps, added, strict=True)
        for first, room, step, more in parts:
            if step is None or more is None:
                found.append(room)
                continue
            if step.is_whole:
                found.append(GrownTensor(None, step.axis, room, more))
                continue
            start = first.type.shape[step.axis]
            rest = room.type.shape[step.axis] - largest(start)
            rows = n.emit(slice_axis(room.type, step.axis, start, rest), room)
            found.append(GrownTensor(first, step.axis, rows, more))
        return found


def _extent(n: NodeContext, type: TensorType, axis: int) -> Value:
    """How long a value is along an axis, if it has it."""
    return n.integers_of((type.shape[axis] if -type.rank <= axis < type.rank else 0,), (1,))


def _with_extent(type: TensorType, axis: int, extent: int) -> TensorType:
    return type.with_shape((*type.shape[:axis], extent, *type.shape[axis + 1 :]))


def _begin(n: NodeContext, x: Value, axis: int, count: int) -> Value:
    """The first elements of a value along an axis."""
    return x if x.type.shape[axis] == count else n.emit(slice_axis(x.type, axis, 0, count), x)


def _read_from_room(body: Function, place: int, type: TensorType, axis: int) -> None:
    """Let an input and an output of a body at the same place be a room."""
    past, output = body.inputs[place], body.outputs[place]
    room = body.input(past.name, type)
    body.inputs.remove(room)
    written = grow_in_place(body, past, output.value, room, axis)
    body.inputs[place] = room
    body.outputs[place] = Output(output.name, written)
