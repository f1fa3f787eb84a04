"""The memories of a target, as far as the planner needs to know them."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.runtime.native.convention import ALIGNMENT
from afterglow.support.errors import UnsupportedError
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class MemorySpace:
    """A memory of a target, and the bytes that a program may use of it."""

    name: str = ""
    capacity: int | None = None
    """Unlimited if None."""
    alignment: int = ALIGNMENT
    """The bytes at whose multiples buffers begin."""


MAIN_MEMORY = MemorySpace()
"""The only memory of an ordinary target: it holds inputs, outputs, constants and the arena."""


@dataclass(frozen=True)
class Memories:
    """A small fast memory and a large slow one, where inputs, outputs, constants and state lie."""

    fast: MemorySpace
    slow: MemorySpace
    computes_in_fast: bool = True
    """Whether an instruction can use only what lies in fast memory."""

    @staticmethod
    def of(spaces: Sequence[MemorySpace]) -> Memories | None:
        """The memories that a target declares, the large one first; None if it has only one."""
        if len(spaces) < 2:
            return None
        if len(spaces) > 2:
            names = ", ".join(repr(space.name) for space in spaces)
            raise UnsupportedError(
                f"the target has {len(spaces)} memories ({names}), and only two can be planned"
            )
        return Memories(fast=spaces[1], slow=spaces[0])
