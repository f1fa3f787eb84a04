"""The figures of a memory plan, without the program that was planned."""

from __future__ import annotations

from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class MemoryPlan:
    """The size of the arena, and its lower bound: the largest sum of bytes live at once."""

    arena_bytes: int
    lower_bound_bytes: int
    total_bytes: int
    """The sum over all buffers: the arena without any sharing."""
    scratch_bytes: int = 0
    """What kernels need as scratch, at most at once: part of the arena."""

    @property
    def ratio(self) -> float:
        """The arena by its lower bound: 1 is perfect."""
        return self.arena_bytes / self.lower_bound_bytes if self.lower_bound_bytes else 1.0
