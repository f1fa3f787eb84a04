"""What the host runs of a compiled program: instructions that there is no machine code for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from afterglow.backends.interpreter.machine import Machine, Run
from afterglow.backends.interpreter.stored import restore_program, store_program
from afterglow.instr import Program, origins_of
from afterglow.memory.timeline import work_of
from afterglow.runtime.artifact import Section
from afterglow.runtime.device import DeviceBuffer, StepName
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array
from afterglow.types.dtype import string


@dataclass(frozen=True)
class HostedProgram:
    """A program of which the host runs some instructions, by their places in its body."""

    program: Program
    steps: tuple[int, ...]
    constants: Mapping[str, int]
    """Offsets of the constants that the host reads in the block of constants, by name."""
    unchecked: bool = False
    """Whether indices out of range become the nearest that are not."""

    @cached_property
    def machine(self) -> Machine:
        """What runs them, by the definitions of their ops."""
        return Machine(self.program, unchecked=self.unchecked)

    def start(
        self,
        arena: Array,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        states: Mapping[str, DeviceBuffer],
    ) -> HostedRun:
        """Begin a run on the memory that machine code uses."""
        return HostedRun(Run(self.machine, {"": arena}, inputs, outputs, states))

    def step(self, index: int) -> StepName:
        """What the instruction at a place in the program's body does."""
        instruction = self.program.body[index]
        return StepName(work_of(instruction), origins_of(instruction), on_host=True)

    def sections(self) -> dict[str, Section]:
        """The program, what its ops carry, and its strings, which machine code does not hold."""
        return self._stored[1]

    def describe(self) -> dict[str, Any]:
        """What is needed besides the sections, as JSON can hold it."""
        return {
            "steps": list(self.steps),
            "constants": dict(self.constants),
            "unchecked": self.unchecked,
            "program": self._stored[0],
        }

    @cached_property
    def _stored(self) -> tuple[dict[str, Any], dict[str, Section]]:
        run = [self.program.body[index] for index in self.steps]
        strings = [buffer for buffer in self.program.constants if buffer.type.dtype is string]
        return store_program(self.program, run, strings)


@dataclass(frozen=True)
class HostedRun:
    """One run of what the host does."""

    run: Run

    def execute(self, index: int) -> None:
        """Run the instruction at a place in the program's body."""
        self.run.execute(self.run.program.body[index])


def restore_hosted(
    manifest: Mapping[str, Any], sections: Mapping[str, Section], constants: Array
) -> HostedProgram:
    """The program that was described so; `constants` is the block that machine code reads."""
    program = restore_program(manifest["program"], sections)
    offsets = manifest["constants"]
    for buffer in program.constants:
        if buffer.name in offsets and buffer.data is None:
            start = offsets[buffer.name]
            raw = constants[start : start + buffer.type.nbytes]
            buffer.data = raw.view(buffer.type.dtype.numpy).reshape(buffer.type.shape)
    return HostedProgram(program, tuple(manifest["steps"]), offsets, manifest["unchecked"])
