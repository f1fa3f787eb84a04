"""A program that runs, whatever made it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from afterglow.types import Array


@dataclass(frozen=True)
class Footprint:
    """Bytes that an executable needs besides the arena and the arrays it works on."""

    weight_bytes: int
    code_bytes: int = 0
    thread_bytes: int = 0


class Executable(Protocol):
    """A program that can be run, again and again, by several threads at once."""

    @property
    def footprint(self) -> Footprint:
        """What it needs besides the arena."""

    def run(self, inputs: Sequence[Array], states: Mapping[str, Array]) -> list[Array]:
        """Run once: inputs in the program's order, states by name (updated); returns outputs."""
