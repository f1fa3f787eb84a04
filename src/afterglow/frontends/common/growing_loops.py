"""Loops whose carried values become longer by the same in each iteration, as caches do.

Such a loop carries memory with room for the longest value there may be, and in the body extents are
expressions over a dimension that stands for the number of the iteration:

    f32[s, 8] becomes f32[s + 1, 8]  ->  f32[s + i, 8] is the beginning of f32[512 + 32, 8]
"""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.definition.problems import ChangesTypesError
from afterglow.graph import Function, Value
from afterglow.graph.function import Output
from afterglow.ops.fill import Fill
from afterglow.ops.growing import grow_in_place, room_type
from afterglow.ops.movement import slice_axis
from afterglow.ops.overwrite import Overwrite
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import TensorType
from afterglow.types.dtype import string
from afterglow.types.extent import Dim, is_ranged, ranged

MOST_ROOM_BYTES = 2**28
"""What values that grow may take at most: if it is more, the host drives the loop."""

Steps = Sequence["tuple[int, int] | None"]
"""For each carried value the axis along which it grows, and by how much; None: it stays."""


def steps_between(types: Sequence[TensorType], returned: Sequence[TensorType]) -> Steps | None:
    """How much longer each value becomes in an iteration; None if types differ in other ways."""
    steps: list[tuple[int, int] | None] = []
    for old, new in zip(types, returned, strict=False):
        if old == new:
            steps.append(None)
            continue
        if old.rank != new.rank or old.dtype != new.dtype:
            return None
        axes = [axis for axis in range(old.rank) if old.shape[axis] != new.shape[axis]]
        step = new.shape[axes[0]] - old.shape[axes[0]]
        if len(axes) > 1 or is_ranged(step) or step < 0:
            return None
        steps.append((axes[0], step))
    return steps


@dataclass(frozen=True)
class LoopGrowth:
    """How the carried values of a loop grow, from their first types, for so many iterations."""

    steps: Steps
    first: Sequence[TensorType]
    most: int
    """How many iterations there are at most."""
    iteration: int
    """The dimension that is the number of the iteration."""

    @staticmethod
    def of(steps: Steps, first: Sequence[TensorType], most: int, name: str) -> LoopGrowth:
        """The growth of values within memory of bounded size, or why there is none."""
        if any(step and type.dtype is string for step, type in zip(steps, first, strict=True)):
            raise ChangesTypesError("a list of texts that it carries grows")
        growth = LoopGrowth(steps, first, most, ranged(Dim(name, 0, most - 1)) if most else 0)
        if most < 2 or sum(type.nbytes for type in growth.types(most)) > MOST_ROOM_BYTES:
            raise ChangesTypesError("values that it carries may grow too large")
        return growth

    def types(self, iterations: int) -> list[TensorType]:
        """What the values are after some iterations."""
        return [
            type if step is None else _longer(type, step[0], step[1] * iterations)
            for type, step in zip(self.first, self.steps, strict=True)
        ]

    def make_room(self, n: NodeContext, body: Function, carried: Sequence[Value]) -> list[Value]:
        """Have a body read and write values in their rooms; what these hold at first."""
        made = []
        for place, (value, longest) in enumerate(
            zip(carried, self.types(self.most), strict=True), start=1
        ):
            step = self.steps[place - 1]
            if step is None:
                made.append(value)
                continue
            room = room_type(longest, step[0])
            _read_from_room(body, place, room, step[0])
            zeros = n.emit(Fill(room.shape, 0.0, room.dtype))
            made.append(n.emit(Overwrite((0,) * room.rank), zeros, value))
        return made

    def results(
        self, n: NodeContext, results: Sequence[Value], trips: int | None
    ) -> tuple[Value, ...]:
        """What the loop returns: values without the rest of their rooms, if that can be told."""
        found = [*results]
        for place, step in enumerate(self.steps):
            if step is None:
                continue
            if trips is not None:
                longest = _longer(self.first[place], step[0], step[1] * trips)
                found[place] = _begin(n, found[place], step[0], longest.shape[step[0]])
            elif n.is_read(place):
                raise ChangesTypesError(
                    "a value that it carries grows, is read behind it, and only data tell how long "
                    "it is then"
                )
        if trips is not None:
            stacked = range(len(self.steps), len(found) - 1)
            found[stacked.start : stacked.stop] = [_begin(n, found[i], 0, trips) for i in stacked]
        return tuple(found)


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
