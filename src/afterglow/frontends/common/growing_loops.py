"""Loops whose carried values become longer by the same in each iteration, as caches do.

Such a loop carries memory with room for the longest value there may be, and in the body extents are
expressions over a dimension that stands for the number of the iteration:

    f32[s, 8] becomes f32[s + 1, 8]  ->  f32[s + i, 8] is the beginning of f32[512 + 32, 8]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.definition.model import CUT_AXES
from afterglow.frontends.definition.problems import ChangesTypesError
from afterglow.graph import Function, Value
from afterglow.graph.function import Output
from afterglow.ops.elementwise import Add, Mul
from afterglow.ops.fill import Fill
from afterglow.ops.growing import grow_in_place, room_type
from afterglow.ops.movement import slice_axis
from afterglow.ops.overwrite import Overwrite
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import TensorType
from afterglow.types.dtype import string
from afterglow.types.extent import Dim, dims_of, is_ranged, ranged

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

    def check_stacked(self, types: Sequence[TensorType]) -> None:
        """Raise if what iterations return to be stacked does not have the same shape each time."""
        own = set(dims_of(self.iteration))
        if any(own.intersection(dims_of(extent)) for type in types for extent in type.shape):
            raise ChangesTypesError("what it stacks has different shapes in iterations")

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

    def results(self, n: NodeContext, results: Sequence[Value], trips: int) -> tuple[Value, ...]:
        """What a loop returns after so many iterations: values without the rest of their rooms."""
        found = [*results]
        for place, longest in enumerate(self.types(trips)):
            step = self.steps[place]
            if step is not None:
                found[place] = _begin(n, found[place], step[0], longest.shape[step[0]])
        stacked = range(len(self.steps), len(found) - 1)
        found[stacked.start : stacked.stop] = [_begin(n, found[i], 0, trips) for i in stacked]
        return tuple(found)

    def rooms(
        self, n: NodeContext, results: Sequence[Value], places: Sequence[int]
    ) -> tuple[Value, ...]:
        """What a loop returns that counts iterations: rooms, and how long values in them are.

        `places` are those of the values among all that the loop carries.
        """
        axes = () if n.graph.frame.places else n.integers(CUT_AXES, ())  # a body cannot cut
        count, lengths = results[-1], []
        for place, type, step in zip(places, self.first, self.steps, strict=True):
            axis, by = step or (axes[place] if axes else 0, 0)
            if by and n.is_read(place) and (not axes or axes[place] % type.rank != axis):
                raise ChangesTypesError(
                    "a value that it carries grows, is read behind it, and only data tell how long "
                    "it is then"
                )
            lengths.append(_length(n, type, axis, by, count))
        return (*results, *lengths)


def _length(n: NodeContext, first: TensorType, axis: int, by: int, count: Value) -> Value:
    """How long a value is along an axis after so many iterations."""
    extent = first.shape[axis] if -first.rank <= axis < first.rank else 0
    begin = n.integers_of((extent,), (1,))
    if not by:
        return begin
    return n.emit(Add(), n.emit(Mul(), count, n.constant(np.array([by]))), begin)


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
