"""What a backend is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from afterglow.graph import Array, Op
from afterglow.instr import Program


class Executable(Protocol):
    """A program that can be run, again and again."""

    def run(self, inputs: Sequence[Array], states: Mapping[str, Array]) -> list[Array]:
        """Run once: inputs in the program's order, states by name (updated); returns outputs."""


class Backend(Protocol):
    """Code generation for one kind of machine."""

    name: str
    borders: bool
    """Whether its kernels read a border in memory where an op has padding."""

    def keeps(self, op: Op) -> bool:
        """Whether it computes this op itself; all others are lowered."""

    def compile(self, program: Program) -> Executable:
        """Make a planned program run."""
