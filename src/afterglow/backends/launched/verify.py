"""Running a program one kernel at a time, each compared with what its ops mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from afterglow.backends.interpreter import Machine, Run
from afterglow.backends.interpreter.compare import compare_step
from afterglow.backends.launched.memories import ARENA
from afterglow.instr import Program
from afterglow.runtime.buffers import HostBuffer, HostExecutable
from afterglow.runtime.device import DeviceBuffer, Footprint
from afterglow.types import Array, TensorType
from afterglow.types.dtype import string


class StepwiseWorkspace(Protocol):
    """What a run is made with, one part after the other."""

    @property
    def parts(self) -> Sequence[Mapping[str, Any]]:
        """What the parts do."""

    def run(
        self,
        inputs: Sequence[Array],
        states: Mapping[str, DeviceBuffer],
        after_part: Callable[[int], None] | None = None,
    ) -> list[Array]:
        """Run, and call `after_part` with the number of each part when it is done."""

    def fetch(self, name: str, data: Array) -> None:
        """Copy the bytes of a memory to the host, if it is on the device."""


class StepwiseExecutable(Protocol):
    """An executable that hands out what a run is made with."""

    @property
    def footprint(self) -> Footprint:
        """What it needs besides the arena."""

    def workspace(self) -> AbstractContextManager[StepwiseWorkspace]:
        """What one run is made with."""


class VerifyingExecutable(HostExecutable):
    """A compiled program that compares: after each kernel, all memory is fetched.

    The interpreter does the same on a copy of the memory before.
    """

    def __init__(
        self, executable: StepwiseExecutable, program: Program, *, unchecked: bool
    ) -> None:
        self.executable = executable
        self.footprint = executable.footprint
        self.machine = Machine(program, unchecked=unchecked)

    def run(self, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]) -> list[Array]:
        """Run once; raises `VerifyError` at the first kernel that computes something else."""
        with self.executable.workspace() as workspace:
            check = _Check(self.machine, workspace, inputs, states)
            return workspace.run(inputs, states, after_part=check.part)

    def array_of(self, buffer: DeviceBuffer) -> Array:
        """The array of an input: a copy of what the device holds."""
        return buffer.read().result()


class _Check:
    """Holds the memory of a run as it was before the part that comes next."""

    def __init__(
        self,
        machine: Machine,
        workspace: StepwiseWorkspace,
        inputs: Sequence[Array],
        states: Mapping[str, DeviceBuffer],
    ) -> None:
        self.machine = machine
        self.workspace = workspace
        held = {name: state.read().result() for name, state in states.items()}
        self.before = self._run([*map(np.array, inputs)], held)
        self._begun: set[int] = set()
        """Instructions of which some parts are done, but not all."""
        parts = enumerate(workspace.parts)
        self._last = {place: number for number, each in parts for place in each.get("places", ())}
        """The last part of each instruction."""

    def part(self, number: int) -> None:
        """Compare what a part wrote; the host runs its own steps by their definitions.

        A scan is compared when all of its iterations are done.
        """
        self._begun.update(self.workspace.parts[number].get("places", ()))
        places = sorted(place for place in self._begun if self._last[place] == number)
        self._begun.difference_update(places)
        for place in places:
            self.before.execute(self.machine.program.body[place])
        program, states = self.machine.program, self.machine.program.states
        now = self._run(
            [self._fetched(f"input {i}", b.type) for i, b in enumerate(program.inputs)],
            {state.name: self._fetched(f"state {state.name}", state.type) for state in states},
            [self._fetched(f"output {i}", b.type) for i, b in enumerate(program.outputs)],
        )
        self.workspace.fetch(ARENA, now.arenas[""])
        for place in places:
            compare_step(place, program.body[place], now, self.before)
        if not self._begun:
            self.before = now

    def _run(
        self,
        inputs: Sequence[Array],
        states: Mapping[str, Array],
        outputs: Sequence[Array] | None = None,
    ) -> Run:
        program = self.machine.program
        if outputs is None:
            outputs = [np.empty(b.type.shape, b.type.dtype.numpy) for b in program.outputs]
        held = {b.name: HostBuffer(b.type, states[b.name]) for b in program.states}
        arena = np.empty(program.arena_bytes or 0, np.uint8)
        return Run(self.machine, {"": arena}, inputs, outputs, held, program)

    def _fetched(self, name: str, type: TensorType) -> Array:
        array = np.empty(type.shape, type.dtype.numpy)
        if type.dtype is not string:
            self.workspace.fetch(name, array.reshape(-1).view(np.uint8))
        return array
