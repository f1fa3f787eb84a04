"""Addresses for lifetimes, quickly: several strategies to fill an arena, of which the best counts.

Each way takes the lifetimes in some order and gives each a gap between those that were placed
before and live at the same time. What ends up above the bound is then placed again, together with
what is near it in time, earlier than before.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, product
from typing import Any, TypeAlias

import numpy as np

from afterglow.memory.lifetimes import Lifetime

Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Key: TypeAlias = Callable[[Lifetime], tuple[int, ...]]
Fit: TypeAlias = Callable[[Numbers, Numbers, Lifetime], int]
"""Chooses an address in one of the gaps, all wide enough, given by where they begin and end."""

EFFORT = 100_000
"""How often a lifetime may be placed before the best so far has to do."""
PATIENCE = 20
"""How often a placement is repaired without getting better before another is tried."""


def place(lifetimes: Sequence[Lifetime], bound: int) -> list[int]:
    """The best of all strategies; none is tried once the arena is as small as the bound."""
    best = list(accumulate((life.size for life in lifetimes), initial=0))[:-1]
    arena = arena_of(lifetimes, best)
    if arena <= bound:
        return best
    table = _Table(lifetimes, bound)
    for addresses in _attempts(table):
        height = table.height(addresses)
        if height < arena:
            best, arena = addresses.tolist(), height
        if arena <= bound or table.placed > EFFORT:
            break
    return best


def arena_of(lifetimes: Sequence[Lifetime], addresses: Sequence[int]) -> int:
    """Bytes that a placement takes."""
    ends = (a + life.size for life, a in zip(lifetimes, addresses, strict=True))
    return max(ends, default=0)


def _attempts(table: _Table) -> Iterator[Numbers]:
    """First every order once, then repairs, of the most promising order first."""
    found: list[tuple[int, Numbers, Numbers]] = []
    for key in _keys(table.lifetimes, table.bound):
        if table.placed < EFFORT // 2:
            order = table.order(key)
            addresses = table.fill(order, _lowest)
            yield addresses
            found.append((table.height(addresses), order, addresses))
    found.sort(key=lambda entry: entry[0])
    fits = (_lowest, _outwards(table.lifetimes), _tightest)
    for haste, fit, (_, order, addresses) in product((2, 5), fits, found):
        yield from _repaired(table, addresses, order, fit, haste)


def _keys(lifetimes: Sequence[Lifetime], bound: int) -> list[Key]:
    """Orders in which to place: what is hard to place comes first, in one sense or another.

    Hardest is what is live when the arena is nearly full: its `load` is the most that is ever live
    together with it.
    """
    load = dict(zip(lifetimes, _loads(lifetimes), strict=True))
    return [
        lambda life: (-(load[life] ** 4) * life.size, life.start),
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
    """The lifetimes as columns of numbers, so that those that meet one are found at once.

    `placed` counts how often a lifetime was given an address.
    """

    def __init__(self, lifetimes: Sequence[Lifetime], bound: int) -> None:
        self.lifetimes = lifetimes
        self.bound = bound
        self.placed = 0
        self.starts = np.array([life.start for life in lifetimes], np.int64)
        self.ends = np.array([life.end for life in lifetimes], np.int64)
        self.sizes = np.array([life.size for life in lifetimes], np.int64)

    def order(self, key: Key) -> Numbers:
        """The lifetimes, by number, sorted by a key."""
        return np.array(sorted(range(len(self.sizes)), key=lambda i: key(self.lifetimes[i])))

    def height(self, addresses: Numbers) -> int:
        """Bytes that a placement takes."""
        return int((addresses + self.sizes).max())

    def near(self, some: Numbers) -> Numbers:
        """These lifetimes, and those that meet one of them."""
        first, last = self.starts[some].min(), self.ends[some].max()
        reached = np.zeros(last - first + 2, np.int64)
        np.add.at(reached, self.starts[some] - first, 1)
        np.add.at(reached, self.ends[some] - first + 1, -1)
        before = np.concatenate(([0], np.cumsum(np.cumsum(reached) > 0)))
        low = np.clip(self.starts - first, 0, last - first + 1)
        high = np.clip(self.ends - first + 1, 0, last - first + 1)
        return np.flatnonzero(before[high] > before[np.minimum(low, high)])

    def fill(self, order: Numbers, fit: Fit, kept: Numbers | None = None) -> Numbers:
        """Place in the given order: in a gap below the bound, or else on top.

        With `kept`, all others stay where they are.
        """
        self.placed += len(order)
        addresses = np.zeros(len(self.sizes), np.int64) if kept is None else kept.copy()
        rows = order if kept is None else np.concatenate((self._others(order), order))
        starts, ends, low = self.starts[rows], self.ends[rows], addresses[rows]
        high = low + self.sizes[rows]
        for row in range(len(rows) - len(order), len(rows)):
            life = self.lifetimes[rows[row]]
            meets = (starts[:row] <= life.end) & (ends[:row] >= life.start)
            floors, ceilings = self._gaps(low[:row][meets], high[:row][meets])
            wide = np.flatnonzero(ceilings - floors >= life.size)
            low[row] = fit(floors[wide], ceilings[wide], life) if wide.size else floors[-1]
            high[row] = low[row] + life.size
        addresses[rows] = low
        return addresses

    def _others(self, order: Numbers) -> Numbers:
        """All that are not in the order, save those that meet nothing of it."""
        first, last = self.starts[order].min(), self.ends[order].max()
        about = (self.starts <= last) & (self.ends >= first)
        about[order] = False
        return np.flatnonzero(about)

    def _gaps(self, low: Numbers, high: Numbers) -> tuple[Numbers, Numbers]:
        """Where the gaps between occupied ranges begin and end; the last ends at the bound."""
        order = np.argsort(low, kind="stable")
        floors = np.maximum.accumulate(np.concatenate(([0], high[order])))
        return floors, np.append(low[order], self.bound)


def _lowest(floors: Numbers, ceilings: Numbers, life: Lifetime) -> int:
    """At the lowest address with enough room."""
    return int(floors[0])


def _tightest(floors: Numbers, ceilings: Numbers, life: Lifetime) -> int:
    """In the narrowest gap with enough room."""
    return int(floors[np.argmin(ceilings - floors)])


def _outwards(lifetimes: Sequence[Lifetime]) -> Fit:
    """Long lifetimes at the lowest address, short ones at the highest below the bound."""
    middle = sorted(life.length for life in lifetimes)[len(lifetimes) // 2]

    def fit(floors: Numbers, ceilings: Numbers, life: Lifetime) -> int:
        return int(floors[0] if life.length > middle else ceilings[-1] - life.size)

    return fit


def _repaired(
    table: _Table, addresses: Numbers, order: Numbers, fit: Fit, haste: int
) -> Iterator[Numbers]:
    """Place again and again what lies above the bound, earlier each time, and what is near it."""
    rank = np.argsort(order)
    least, patience = np.inf, PATIENCE
    while patience:
        excess = np.maximum(addresses + table.sizes - table.bound, 0)
        patience = PATIENCE if excess.sum() < least else patience - 1
        least = min(least, excess.sum())
        loose = table.near(table.near(np.flatnonzero(excess)))
        loose = loose[np.argsort(rank[loose])]
        places = np.arange(len(loose))
        places = np.where(excess[loose], places // haste - 1, places)
        again = loose[np.argsort(places, kind="stable")]
        rank[again] = rank[loose]
        addresses = table.fill(again, fit, addresses)
        yield addresses
