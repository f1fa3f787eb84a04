"""Memory of results that nobody has any more, kept for the next run that gives the like.

What is begun on the same stream later comes after whatever still reads it. So runs allocate
nothing, and find results at the addresses that their graphs were captured with, in whatever order
they were let go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from afterglow.backends.cuda.session import DeviceMemory

LEAST_OF_A_KIND = 8
"""Pieces of memory of one size that are kept for one stream, if no program gives more at once."""
RUNS_KEPT = 2
"""Runs whose results are kept of a program that gives many of a size: one is used by the next."""


class Recycler:
    """Free memory by size and stream, the lowest address first.

    It has no lock: memory comes back when Python collects what held it, which may happen anywhere.
    """

    def __init__(self) -> None:
        self._free: dict[tuple[int, int], list[tuple[int, DeviceMemory]]] = {}
        self._most: Counter[int] = Counter()

    def expect(self, sizes: Iterable[int]) -> None:
        """Have room for the results of a program, each of so many bytes."""
        for nbytes, count in Counter(sizes).items():
            self._most[nbytes] = max(self._most[nbytes], RUNS_KEPT * count)

    def take(self, nbytes: int, stream: int) -> DeviceMemory | None:
        """Memory that was used on this stream last, if some is free."""
        try:
            return heappop(self._free[nbytes, stream])[1]
        except (KeyError, IndexError):
            return None

    def give(self, memory: DeviceMemory, stream: int) -> None:
        """Keep memory for what comes next on this stream; let it go if there is enough."""
        kept = self._free.setdefault((memory.nbytes, stream), [])
        if len(kept) < max(LEAST_OF_A_KIND, self._most[memory.nbytes]):
            heappush(kept, (memory.address, memory))

    def clear(self) -> bool:
        """Let all of it go; whether there was any."""
        had_some = any(self._free.values())
        self._free = {}
        return had_some
