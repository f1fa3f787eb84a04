"""The memories of a target, as far as the planner needs to know them."""

from __future__ import annotations

from dataclasses import dataclass

from afterglow.runtime.native.convention import ALIGNMENT


@dataclass(frozen=True)
class MemorySpec:
    """One memory: how large it is, if that is limited, and how buffers must be aligned in it."""

    name: str = ""
    bytes: int | None = None
    alignment: int = ALIGNMENT


ARENA = MemorySpec()
"""The only memory of an ordinary target."""


@dataclass(frozen=True)
class Memories:
    """A small fast memory and a large slow one, where inputs, outputs, constants and state lie."""

    fast: MemorySpec
    slow: MemorySpec
    computes_in_fast: bool = True
    """Whether an instruction can use only what lies in fast memory."""
