"""Addresses for lifetimes, quickly: several ways to fill an arena, of which the best counts.

Each way takes the lifetimes in some order and gives each a gap between those that were placed
before and live at the same time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, product
from typing import Any, TypeAlias

import numpy as np

from afterglow.memory.liveness import Lifetime

Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Addresses: TypeAlias = list[int]
Order: TypeAlias = list[int]
Key: TypeAlias = Callable[[Lifetime], tuple[int, ...]]
Fit: TypeAlias = Callable[[Numbers, Numbers, Lifetime], int]
"""Chooses an address in one of the gaps, all wide enough, given by where they begin and end."""

EFFORT = 100_000
"""How often a lifetime may be placed before the best so far has to do."""

ROUNDS = 20
"""How often one order is repaired."""


def place(lifetimes: Sequence[Lifetime], bound: int) -> Addresses:
    """The best of all ways; none is tried any more once the arena is as small as the bound."""
    if not lifetimes:
        return []
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
    return list(accumulate((life.size for life in lifetimes[:-1]), initial=0))


def _attempts(lifetimes: Sequence[Lifetime], bound: int) -> Iterator[Addresses]:
    """First every order once, then repairs, of the most promising order first."""
    table = _Table(lifetimes, bound)
    arenas: list[tuple[int, Order]] = []
    for key in _keys(lifetimes, bound):
        order = table.order(key)
        addresses = table.fill(order, _lowest)
        yield addresses
        arenas.append((arena_of(lifetimes, addresses), order))
    arenas.sort(key=lambda entry: entry[0])
    fits = (_lowest, _outwards(lifetimes), _tightest)
    for haste, fit, (_, order) in product((2, 5), fits, arenas):
        yield from _repaired(table, order, fit, haste)


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
    """The lifetimes as columns of numbers, so that those that meet one are found at once."""

    def __init__(self, lifetimes: Sequence[Lifetime], bound: int) -> None:
        self.lifetimes = lifetimes
        self.bound = bound
        self.starts = np.array([life.start for life in lifetimes], np.int64)
        self.ends = np.array([life.end for life in lifetimes], np.int64)

    def order(self, key: Key) -> Order:
        """The lifetimes, by number, sorted by a key."""
        return sorted(range(len(self.lifetimes)), key=lambda i: key(self.lifetimes[i]))

    def fill(self, order: Order, fit: Fit) -> Addresses:
        """Place all in the given order: in a gap below the bound, or else on top."""
        starts, ends = self.starts[order], self.ends[order]
        low, high = np.zeros(len(order), np.int64), np.zeros(len(order), np.int64)
        addresses = [0] * len(order)
        for position, index in enumerate(order):
            life, before = self.lifetimes[index], slice(position)
            meets = (starts[before] <= life.end) & (ends[before] >= life.start)
            floors, ceilings = self._gaps(low[before][meets], high[before][meets])
            wide = np.flatnonzero(ceilings - floors >= life.size)
            address = int(fit(floors[wide], ceilings[wide], life) if wide.size else floors[-1])
            addresses[index] = low[position] = address
            high[position] = address + life.size
        return addresses

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


def _repaired(table: _Table, order: Order, fit: Fit, haste: int) -> Iterator[Addresses]:
    """Place again and again; what lay above the bound moves forward in the order each time."""
    for _ in range(ROUNDS):
        addresses = table.fill(order, fit)
        yield addresses
        ends = (addresses[index] + table.lifetimes[index].size for index in order)
        places = {
            index: place // haste - 1 if end > table.bound else place
            for place, (index, end) in enumerate(zip(order, ends, strict=True))
        }
        order = sorted(order, key=places.__getitem__)
