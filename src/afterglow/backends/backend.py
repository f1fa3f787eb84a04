"""What a backend is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from afterglow.graph import Array, Border, Op
from afterglow.instr import Program
from afterglow.types import TensorType


class Executable(Protocol):
    """A program that can be run, again and again."""

    def run(self, inputs: Sequence[Array], states: Mapping[str, Array]) -> list[Array]:
        """Run once: inputs in the program's order, states by name (updated); returns outputs."""


class Backend(Protocol):
    """Code generation for one kind of machine."""

    name: str

    def keeps(self, op: Op) -> bool:
        """Whether it computes this op itself; all others are lowered."""

    def border(self, op: Op, operands: Sequence[TensorType | None]) -> Border | None:
        """What its kernel for an op wants around the first operand: `op.bordered`, or nothing."""

    def compile(self, program: Program) -> Executable:
        """Make a planned program run."""
