"""A function compiled for exact shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from afterglow.backends import Executable
from afterglow.graph import Array
from afterglow.instr import Buffer, Program
from afterglow.memory import MemoryPlan
from afterglow.runtime.signature import Signature, TensorInfo


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
    """A planned program with its executable. State starts as zeros and lives as long as it does.

    `input_names` and `output_names` are the model's own, in the order of the program's buffers.
    """

    def __init__(
        self,
        program: Program,
        plan: MemoryPlan,
        executable: Executable,
        input_names: Sequence[str],
        output_names: Sequence[str],
    ) -> None:
        self.program = program
        self.input_names = tuple(input_names)
        self.output_names = tuple(output_names)
        self.plan = plan
        self.executable = executable
        self.states = {b.name: np.zeros(b.type.shape, b.type.dtype.numpy) for b in program.states}

    @property
    def signature(self) -> Signature:
        """What it takes and gives, exactly."""
        return Signature(
            tuple(map(_info, self.input_names, self.program.inputs)),
            tuple(map(_info, self.output_names, self.program.outputs)),
        )

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


def _info(name: str, buffer: Buffer) -> TensorInfo:
    return TensorInfo(name, buffer.type.dtype, buffer.type.shape)
