"""Loops whose carried values become longer in an iteration, as caches do.

Such a loop carries memory with room for the longest value there may be, and in the body extents are
expressions over a dimension that stands for the number of the iteration:

    f32[s, 8] becomes f32[s + 1, 8]  ->  f32[s + i, 8] is the beginning of f32[512 + 32, 8]

Where data tell how much longer (`grown.py`), the loop carries that, too, and another dimension
stands for it:

    f32[s, 8] becomes f32[s, 8] and n rows  ->  f32[s + g, 8], and g becomes g + n
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

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
from afterglow.types.extent import Dim, dims_of, is_ranged, largest, ranged

MOST_ROOM_BYTES = 2**28
"""What values that grow may take at most: if it is more, the host drives the loop."""

Steps = Sequence[GrowthStep | None]
"""For each carried value how it grows; None: it stays."""


def steps_between(types: Sequence[TensorType], returned: Sequence[TensorType]) -> Steps | None:
    """How much longer each value becomes in an iteration; None if types differ in other ways."""
    steps: list[GrowthStep | None] = []
    for old, new in zip(types, returned, strict=False):
        if old == new:
            steps.append(None)
            continue
        if old.rank != new.rank or old.dtype != new.dtype:
            return None
        axes = [axis for axis in range(old.rank) if old.shape[axis] != new.shape[axis]]
        by = new.shape[axes[0]] - old.shape[axes[0]]
        if len(axes) > 1 or is_ranged(by) or by < 0:
            return None
        steps.append(GrowthStep(axes[0], by))
    return steps


def return_grown(body: ImportedBody, places: Sequence[int]) -> dict[int, Value]:
    """Have a body return carried tensors with all rows that it may append to them.

    `places` says where tensors are among what is carried. Returns how many rows count, for each
    that grew by its number among the tensors.
    """
    function, counts = body.subgraph.function, dict[int, Value]()
    numbers = {1 + place: number for number, place in enumerate(places)}
    for place, grown in sorted(body.grown.items()):
        number = numbers.get(place)
        if number is None:
            raise ChangesTypesError("what it stacks has different shapes in iterations")
        past = function.inputs[1 + number]
        if grown.base is not past:
            raise ChangesTypesError("a carried value becomes another one that grew")
        present = Builder(function).emit(Concat(grown.axis), past, grown.rows)
        function.outputs.insert(1 + number, Output(f"\0grown{number}", present))
        counts[number] = grown.count
    return counts


def in_one_group(steps: Steps, counts: Mapping[int, Value]) -> Steps:
    """Steps of which all that data tell belong to one group, for want of better knowledge."""
    return [
        replace(step, group=0) if step is not None and number in counts else step
        for number, step in enumerate(steps)
    ]


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
    """The dimensions that are, for each group, how much longer its values are than at first."""

    @staticmethod
    def of(steps: Steps, first: Sequence[TensorType], most: int, name: str) -> LoopGrowth:
        """The growth of values within memory of bounded size, or why there is none."""
        if len(steps) != len(first) or any(
            step and step.axis >= type.rank for step, type in zip(steps, first, strict=True)
        ):
            raise ChangesTypesError("carried values change their types")
        if any(step and type.dtype is string for step, type in zip(steps, first, strict=True)):
            raise ChangesTypesError("a list of texts that it carries grows")
        each: dict[int, int] = {}
        for step in steps:
            if step is not None and step.group is not None:
                each[step.group] = max(step.by, each.get(step.group, 0))
        lengths = tuple(
            ranged(Dim(f"{name}.grown{group}", 0, max(most - 1, 0) * each[group]))
            for group in sorted(each)
        )
        iteration = ranged(Dim(f"{name}.iteration", 0, most - 1)) if most else 0
        growth = LoopGrowth(steps, first, most, iteration, lengths)
        if most < 2 or sum(type.nbytes for type in growth.longest) > MOST_ROOM_BYTES:
            raise ChangesTypesError("values that it carries may grow too large")
        return growth

    @property
    def before(self) -> list[TensorType]:
        """What the values are when an iteration begins."""
        return self._types(lambda step: step.by * self.iteration, lambda _, grown: grown)

    @property
    def returned(self) -> list[TensorType]:
        """What an iteration returns, with rows that may not count."""
        return self._types(
            lambda step: step.by * (self.iteration + 1), lambda step, grown: grown + step.by
        )

    @property
    def longest(self) -> list[TensorType]:
        """What there must be room for."""
        return self.after(self.most)

    def after(self, iterations: int) -> list[TensorType]:
        """What the values are after some iterations, with rows that may not count."""
        return self._types(
            lambda step: step.by * iterations, lambda step, grown: largest(grown) + step.by
        )

    def _types(
        self, counted: Callable[[GrowthStep], int], told: Callable[[GrowthStep, int], int]
    ) -> list[TensorType]:
        """Types that are longer than the first: by the iterations, or by what data told so far."""
        types = []
        for type, step in zip(self.first, self.steps, strict=True):
            if step is None:
                types.append(type)
                continue
            by = counted(step) if step.group is None else told(step, self.lengths[step.group])
            types.append(_longer(type, step.axis, by))
        return types

    def refined(self, counts: Mapping[int, Value]) -> Steps | None:
        """The steps in smaller groups, if a group's values grow by different numbers of rows."""
        if {
            number for number, step in enumerate(self.steps) if step and step.group is not None
        } != {*counts}:
            raise ChangesTypesError("carried values change their types")
        groups: dict[object, int] = {}
        steps: list[GrowthStep | None] = []
        for number, step in enumerate(self.steps):
            if step is not None and number in counts:
                key = (step.group, counts[number])
                step = replace(step, group=groups.setdefault(key, len(groups)))
            steps.append(step)
        return steps if len(groups) > len(self.lengths) else None

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
        counts: Mapping[int, Value],
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
        self._carry_lengths(body, counts)
        return [*(n.constant(np.array(0)) for _ in self.lengths), *made]

    def _carry_lengths(self, body: Function, counts: Mapping[int, Value]) -> None:
        """Have a body count by how much the values of each group grew."""
        by_group = {
            step.group: counts[i] for i, step in enumerate(self.steps) if step and i in counts
        }
        for group in range(len(self.lengths)):
            before = body.input(f"grown{group}", TensorType(i64, ()))
            body.inputs.remove(before)
            body.inputs.insert(1 + group, before)
            after = Builder(body).emit(Add(), before, by_group[group])
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
            lengths.append(n.emit(Add(), total, _extent(n, first, step.axis)))
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
            start = first.type.shape[step.axis]
            rest = room.type.shape[step.axis] - largest(start)
            rows = n.emit(slice_axis(room.type, step.axis, start, rest), room)
            found.append(GrownTensor(first, step.axis, rows, more))
        return found


def _extent(n: NodeContext, type: TensorType, axis: int) -> Value:
    """How long a value is along an axis, if it has it."""
    return n.integers_of((type.shape[axis] if -type.rank <= axis < type.rank else 0,), (1,))


def _longer(type: TensorType, axis: int, by: int) -> TensorType:
    shape = [*type.shape]
    shape[axis] = shape[axis] + by
    return type.with_shape(shape)


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
