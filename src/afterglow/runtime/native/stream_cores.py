"""Which cores each of several streams has: its own, near each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from afterglow.runtime.native.topology import Core


def divide_cores(cores: Sequence[Core], streams: int, threads: int) -> list[tuple[Core, ...]]:
    """Cores for each stream of so many threads.

    A stream stays within a last cache if it fits into one, else within a memory node. Second
    threads of cores are used only if there are too few cores without them, and fast cores first. If
    there are fewer cores than all streams want, streams share them.
    """
    usable = _usable(cores, streams * threads)
    free = list(usable)
    found: list[tuple[Core, ...]] = []
    for _ in range(streams):
        if len(free) < min(threads, len(usable)):
            free = list(usable)
        chosen = _chosen(free, min(threads, len(usable)))
        free = [core for core in free if core not in chosen]
        found.append(tuple(chosen))
    return found


def _usable(cores: Sequence[Core], wanted: int) -> list[Core]:
    """Without second threads of cores if the others are enough."""
    first = [core for core in cores if not core.is_second]
    return first if len(first) >= wanted else list(cores)


def _chosen(free: Sequence[Core], count: int) -> list[Core]:
    """The cores for a stream: of the cache, or else the node, that has the most left."""
    for place in (_cache, _node):
        rooms = [group for group in _grouped(free, place) if len(group) >= count]
        if rooms:
            return _fastest(max(rooms, key=_room), count)
    return _fastest(sorted(free, key=lambda core: (_node(core), _cache(core))), count)


def _fastest(cores: Sequence[Core], count: int) -> list[Core]:
    """The fastest, and both threads of a core together."""
    kinds = sorted(cores, key=lambda core: (-core.capacity, core.twin, core.number))
    return kinds[:count]


def _room(cores: Sequence[Core]) -> tuple[int, int]:
    """How good a place is for a stream: by its fastest core, then by what is left."""
    return max(core.capacity for core in cores), len(cores)


def _grouped(cores: Sequence[Core], place: Callable[[Core], tuple[int, ...]]) -> list[list[Core]]:
    return [list(group) for _, group in groupby(sorted(cores, key=place), key=place)]


def _cache(core: Core) -> tuple[int, ...]:
    return core.node, core.cache


def _node(core: Core) -> tuple[int, ...]:
    return (core.node,)
