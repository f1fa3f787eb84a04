"""What a program takes and gives, without the program."""

from __future__ import annotations

from dataclasses import dataclass

from afterglow.instr.buffer import Buffer
from afterglow.instr.program import Program
from afterglow.types import TensorType


@dataclass(frozen=True)
class Port:
    """An input, output or state. A lent input may be overwritten once it has been read."""

    name: str
    type: TensorType
    lent: bool = False

    @staticmethod
    def of(buffer: Buffer) -> Port:
        """What a buffer outside the arena is to a caller."""
        return Port(buffer.name, buffer.type, buffer.lent)


@dataclass(frozen=True)
class Interface:
    """The ports of a program, in its order."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    states: tuple[Port, ...] = ()

    @staticmethod
    def of(program: Program) -> Interface:
        """The ports of a program."""
        groups = (program.inputs, program.outputs, program.states)
        inputs, outputs, states = (tuple(map(Port.of, buffers)) for buffers in groups)
        return Interface(inputs, outputs, states)
