"""Addresses for lifetimes, quickly: several ways to fill an arena, of which the best counts.

Each way takes the lifetimes in some order and gives each a gap between those that were placed
before and live at the same time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np

from afterglow.memory.liveness import Lifetime

Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Addresses: TypeAlias = list[int]
Key: TypeAlias = Callable[[Lifetime], tuple[int, ...]]
Fit: TypeAlias = Callable[[Numbers, Numbers, int], int]

EFFORT = 100_000
"""How often a lifetime may be placed before the best so far has to do."""

ROUNDS = 30
"""How often one order is repaired."""


def place(lifetimes: Sequence[Lifetime], bound: int) -> Addresses:
    """The best of all ways; none is tried any more once the arena is as small as the bound."""
    best, arena = _one_after_the_other(lifetimes), sum(life.size for life in lifetimes)
    placed = 0
    for addresses in _attempts(lifetimes, bound):
        height = arena_of(lifetimes, addresses)
        if height < arena:
            best, arena = addresses, height
        placed += len(lifetimes)
        if arena <= bound or placed >= EFFORT:
            break
    return best


def arena_of(lifetimes: Sequence[Lifetime], addresses: Sequence[int]) -> int:
    """Bytes that a placement takes."""
    ends = (a + life.size for life, a in zip(lifetimes, addresses, strict=True))
    return max(ends, default=0)


def _one_after_the_other(lifetimes: Sequence[Lifetime]) -> Addresses:
    """No sharing at all."""
    ends = accumulate((life.size for life in lifetimes), initial=0)
    return list(ends)[: len(lifetimes)]


def _attempts(lifetimes: Sequence[Lifetime], bound: int) -> Iterator[Addresses]:
    table = _Table(lifetimes)
    orders = [table.order(key) for key in _keys(lifetimes, bound)]
    for order in orders:
        yield table.fill(order, _lowest)
    for order in orders:
        yield table.fill(order, _tightest)
    for order in orders:
        for haste in (5, 2):
            yield from _repaired(table, order, bound, haste)


def _keys(lifetimes: Sequence[Lifetime], bound: int) -> list[Key]:
    """Orders in which to place: what is hard to place comes first, in one sense or another.

    Hardest is what is live when the arena is nearly full: its `load` is the most that is ever live
    together with it.
    """
    load = dict(zip(lifetimes, _loads(lifetimes), strict=True))
    return [
        lambda life: (-load[life] ** 4 * life.size, life.start),
        lambda life: (-load[life], -life.size * life.length),
        lambda life: (-(load[life] * 10 // bound), -life.length, -life.size),
        lambda life: (-(load[life] ** 8) * life.size * life.length, life.start),
        lambda life: (-life.size, -life.length),
        lambda life: (-life.size * life.length, life.start),
        lambda life: (-life.length, -life.size),
        lambda life: (life.start, -life.size),  # as they come
    ]


def _loads(lifetimes: Sequence[Lifetime]) -> list[int]:
    """For each lifetime, the most bytes that are live at some time of it."""
    times = sorted({life.start for life in lifetimes})
    changes = np.zeros(len(times) + 1, np.int64)
    columns = [
        (bisect_left(times, life.start), bisect_right(times, life.end)) for life in lifetimes
    ]
    for life, (first, stop) in zip(lifetimes, columns, strict=True):
        changes[first] += life.size
        changes[stop] -= life.size
    live = np.cumsum(changes)
    return [int(live[first:stop].max()) for first, stop in columns]


class _Table:
    """The lifetimes as columns of numbers, so that those that meet one are found at once."""

    def __init__(self, lifetimes: Sequence[Lifetime]) -> None:
        self.lifetimes = lifetimes
        self.starts = np.array([life.start for life in lifetimes], np.int64)
        self.ends = np.array([life.end for life in lifetimes], np.int64)
        self.sizes = [life.size for life in lifetimes]

    def order(self, key: Key) -> list[int]:
        """The lifetimes, by number, sorted by a key."""
        return sorted(range(len(self.lifetimes)), key=lambda i: key(self.lifetimes[i]))

    def fill(self, order: Sequence[int], fit: Fit) -> Addresses:
        """Place all in the given order."""
        count = len(order)
        starts, ends = self.starts[order], self.ends[order]
        low, high = np.zeros(count, np.int64), np.zeros(count, np.int64)
        addresses = [0] * count
        for position, index in enumerate(order):
            before = slice(position)
            meets = (starts[before] <= ends[position]) & (ends[before] >= starts[position])
            address = fit(low[before][meets], high[before][meets], self.sizes[index])
            addresses[index] = low[position] = address
            high[position] = address + self.sizes[index]
        return [int(address) for address in addresses]


def _gaps(low: Numbers, high: Numbers) -> tuple[Numbers, Numbers]:
    """Where the gaps between occupied ranges begin, and how wide they are; the last is open."""
    order = np.argsort(low, kind="stable")
    floors = np.maximum.accumulate(np.concatenate(([0], high[order])))
    return floors[:-1], low[order] - floors[:-1]


def _lowest(low: Numbers, high: Numbers, size: int) -> int:
    """The lowest address with enough room."""
    floors, widths = _gaps(low, high)
    fitting = np.flatnonzero(widths >= size)
    return int(floors[fitting[0]]) if fitting.size else int(high.max(initial=0))


def _tightest(low: Numbers, high: Numbers, size: int) -> int:
    """The narrowest gap with enough room."""
    floors, widths = _gaps(low, high)
    fitting = np.flatnonzero(widths >= size)
    if not fitting.size:
        return int(high.max(initial=0))
    return int(floors[fitting[np.argmin(widths[fitting])]])


def _repaired(
    table: _Table, order: Sequence[int], bound: int, haste: int
) -> Iterator[Addresses]:
    """Place again and again; what lay above the bound moves forward in the order each time."""
    for _ in range(ROUNDS):
        addresses = table.fill(order, _lowest)
        yield addresses
        above = {index for index in order if addresses[index] + table.sizes[index] > bound}
        places = {index: place for place, index in enumerate(order)}
        places.update((index, places[index] // haste - 1) for index in above)
        order = sorted(order, key=places.__getitem__)
