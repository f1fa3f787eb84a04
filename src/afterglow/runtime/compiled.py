"""A function compiled for exact shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from afterglow.backends import Executable
from afterglow.graph import Array
from afterglow.instr import Program
from afterglow.memory import MemoryPlan
from afterglow.types import TensorType


@dataclass(frozen=True)
class MemoryReport:
    """Bytes that a compiled model needs; printed, it is a table."""

    arena_bytes: int
    lower_bound_bytes: int
    weight_bytes: int
    code_bytes: int
    io_bytes: int

    def __str__(self) -> str:
        rows = asdict(self).items()
        return "\n".join(f"{name.replace('_', ' '):<18} {count:>15,}" for name, count in rows)


class CompiledFunction:
    """A planned program with its executable. State starts as zeros and lives as long as it does."""

    def __init__(self, program: Program, plan: MemoryPlan, executable: Executable) -> None:
        self.program = program
        self.plan = plan
        self.executable = executable
        self.states = {b.name: np.zeros(b.type.shape, b.type.dtype.numpy) for b in program.states}

    @property
    def input_types(self) -> dict[str, TensorType]:
        """The exact type of each input, in order."""
        return {buffer.name: buffer.type for buffer in self.program.inputs}

    @property
    def memory(self) -> MemoryReport:
        """What it needs."""
        io = (*self.program.inputs, *self.program.outputs)
        return MemoryReport(
            arena_bytes=self.plan.arena_bytes,
            lower_bound_bytes=self.plan.lower_bound_bytes,
            weight_bytes=sum(buffer.type.nbytes for buffer in self.program.constants),
            code_bytes=0,
            io_bytes=sum(buffer.type.nbytes for buffer in io),
        )

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run on arrays of exactly the input types."""
        return self.executable.run(inputs, self.states)
