"""The interface of a program."""

from __future__ import annotations

from afterglow.instr.buffer import Buffer
from afterglow.instr.program import Program
from afterglow.types import Interface, Port


def interface_of(program: Program) -> Interface:
    """The ports of a program."""
    groups = (program.inputs, program.outputs, program.states)
    inputs, outputs, states = (tuple(map(_port, buffers)) for buffers in groups)
    return Interface(inputs, outputs, states)


def _port(buffer: Buffer) -> Port:
    """What a buffer outside the arena is to a caller."""
    return Port(buffer.name, buffer.type, buffer.lent)
