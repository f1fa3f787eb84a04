"""Keep inputs as state: what a run returns for an input, the next run finds in its place.

An input that a run makes longer along one axis becomes state that grows in place. Its memory has
the largest extent, so that what is filled stays where it is, and a run writes behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from afterglow.graph import Builder, Module, Value
from afterglow.graph.function import Output
from afterglow.graph.value import Placeholder
from afterglow.ops.elementwise import Where
from afterglow.ops.growing import grow_in_place
from afterglow.support.errors import UsageError
from afterglow.types import Array, FillLevel, TensorType
from afterglow.types.dtype import boolean
from afterglow.types.extent import RangedExtent, largest, ranged, smallest


def keep_state(
    module: Module, kept: Mapping[str, str], initial: Mapping[str, Array] | None = None
) -> None:
    """Make state of inputs by name, each with the output that it has in the next run, in place.

    `initial` are values that inputs have in the first run; others are zeros, or empty.
    """
    inputs = {value.name: value for value in module.main.inputs}
    outputs = {output.name: output for output in module.main.outputs}
    first = _First(module, initial or {})
    for taken, returned in state_pairs(kept, [*inputs], [*outputs]):
        _keep(module, inputs[taken], outputs[returned], first)


class _First:
    """What states are in the first run, if not the zeros that memory begins with."""

    def __init__(self, module: Module, initial: Mapping[str, Array]) -> None:
        self.module = module
        self.initial = {name: array for name, array in initial.items() if array.any()}

    @cached_property
    def _started(self) -> Placeholder:
        """State that says whether there was a run before."""
        started = self.module.state("started", TensorType(boolean, ()))
        self.module.main.update(started, self.module.constant("started", np.array(True)))
        return started

    def value(self, state: Placeholder, name: str) -> Value:
        """What is read of the state that an input of this name was."""
        if name not in self.initial:
            return state
        main = self.module.main
        constant = self.module.constant(name, self.initial[name])
        b = Builder(main, before=next(iter(main.nodes), None), name=f"{name}.now")
        return b.emit(Where(), self._started, state, constant)


def state_pairs(
    kept: Mapping[str, str], inputs: Sequence[str], outputs: Sequence[str]
) -> list[tuple[str, str]]:
    """The inputs and outputs that names stand for; a star stands for the same text in both."""
    found = []
    for pattern, returned in kept.items():
        start, star, end = pattern.partition("*")
        matching = [name for name in inputs if star and _fits(name, start, end)]
        for name in matching or [pattern]:
            filled = name[len(start) : len(name) - len(end)] if star else ""
            wanted = returned.replace("*", filled)
            _check_name("input", name, inputs)
            _check_name("output", wanted, outputs)
            found.append((name, wanted))
    return found


def _fits(name: str, start: str, end: str) -> bool:
    return len(name) >= len(start) + len(end) and name.startswith(start) and name.endswith(end)


def _check_name(kind: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        listed = ", ".join(map(repr, known))
        raise UsageError(
            f"state cannot be kept: the model has no {kind} {name!r}", help=f"it has {listed}"
        )


def _keep(module: Module, taken: Placeholder, returned: Output, first: _First) -> None:
    main = module.main
    main.outputs.remove(returned)
    main.inputs.remove(taken)
    old, new = taken.type, returned.value.type
    if old == new and not old.is_ranged:
        state = module.state(taken.name, old)
        main.replace(taken, first.value(state, taken.name))
        main.update(state, returned.value)
        return
    axis = _growing_axis(taken, returned)
    room = new.with_shape([largest(extent) for extent in new.shape])
    level = FillLevel(axis, old.shape[axis], new.shape[axis])
    state = module.state(taken.name, room, level)
    main.update(state, grow_in_place(main, taken, returned.value, state, axis))


def _growing_axis(taken: Placeholder, returned: Output) -> int:
    """The axis along which an input grows; an error if it cannot be state."""
    old, new = taken.type, returned.value.type
    axes = [i for i, pair in enumerate(zip(old.shape, new.shape, strict=False)) if len({*pair}) > 1]
    if old.rank != new.rank or old.dtype != new.dtype or len(axes) != 1:
        raise _refused(taken, returned, "they must have one type, or differ along one axis")
    before = old.shape[axes[0]]
    if not isinstance(before, RangedExtent) or before != ranged(before.dims[0]):
        raise _refused(taken, returned, f"axis {axes[0]} must be a dimension with bounds")
    if smallest(before):
        raise _refused(taken, returned, f"{before} must begin at 0: state is empty at first")
    return axes[0]


def _refused(taken: Placeholder, returned: Output, reason: str) -> UsageError:
    return UsageError(
        f"input {taken.name!r} cannot be kept as state that output {returned.name!r} gives: "
        f"{taken.type} becomes {returned.value.type}, and {reason}",
        help="give bounds, such as dims={'past': (0, 1023)}",
    )
