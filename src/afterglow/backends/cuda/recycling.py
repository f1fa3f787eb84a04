"""Memory of results that nobody has any more, kept for the next run that gives the like.

What is begun on the same stream later comes after whatever still reads it. So runs allocate
nothing, and find results at the addresses that their graphs were captured with.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from afterglow.backends.cuda.session import DeviceMemory

MOST_OF_A_KIND = 8
"""Pieces of memory of one size that are kept for one stream."""


class Recycler:
    """Free memory by size and stream.

    It has no lock: memory comes back when Python collects what held it, which may happen anywhere.
    """

    def __init__(self) -> None:
        self._free: dict[tuple[int, int], deque[DeviceMemory]] = {}

    def take(self, nbytes: int, stream: int) -> DeviceMemory | None:
        """Memory that was used on this stream last, if some is free."""
        try:
            return self._free[nbytes, stream].pop()
        except (KeyError, IndexError):
            return None

    def give(self, memory: DeviceMemory, stream: int) -> None:
        """Keep memory for what comes next on this stream; let it go if there is enough."""
        kept = self._free.setdefault((memory.nbytes, stream), deque())
        if len(kept) < MOST_OF_A_KIND:
            kept.append(memory)

    def clear(self) -> bool:
        """Let all of it go; whether there was any."""
        had_some = any(self._free.values())
        self._free = {}
        return had_some
