"""Addresses for lifetimes, quickly: several ways to fill an arena, of which the best counts.

Each way takes the lifetimes in some order and gives each a gap between those that were placed
before and live at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from afterglow.memory.liveness import Lifetime, peak

Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Addresses: TypeAlias = list[int]
Key: TypeAlias = Callable[[Lifetime], tuple[int, ...]]
Fit: TypeAlias = Callable[[Numbers, Numbers, int], int]

REPAIRS = 100_000
"""How many lifetimes may be placed again to repair a placement."""


def place(lifetimes: Sequence[Lifetime], bound: int) -> Addresses:
    """The best of all ways; none is tried any more once the arena is as small as the bound."""
    best, arena = _one_after_the_other(lifetimes), sum(life.size for life in lifetimes)
    for addresses in _attempts(lifetimes, bound):
        height = arena_of(lifetimes, addresses)
        if height < arena:
            best, arena = addresses, height
        if arena <= bound:
            break
    return best


def arena_of(lifetimes: Sequence[Lifetime], addresses: Sequence[int]) -> int:
    """Bytes that a placement takes."""
    ends = (a + life.size for life, a in zip(lifetimes, addresses, strict=True))
    return max(ends, default=0)


def _one_after_the_other(lifetimes: Sequence[Lifetime]) -> Addresses:
    """No sharing at all."""
    ends = np.cumsum([0, *(life.size for life in lifetimes)])
    return [int(end) for end in ends[:-1]]


def _attempts(lifetimes: Sequence[Lifetime], bound: int) -> Iterator[Addresses]:
    table = _Table(lifetimes)
    orders = [sorted(range(len(lifetimes)), key=key) for key in _keys(lifetimes)]
    for order in orders:
        for fit in (_lowest, _tightest):
            yield table.fill(order, fit)
    for order in orders:
        yield from _repaired(table, order, bound, REPAIRS // len(orders))


def _keys(lifetimes: Sequence[Lifetime]) -> list[Callable[[int], tuple[int, ...]]]:
    """Orders in which to place: what is hard to place comes first, in one sense or another."""
    _, when = peak(lifetimes)
    ways: list[Key] = [
        lambda life: (-life.size, life.start),
        lambda life: (-life.size, life.start - life.end),
        lambda life: (-life.size * (life.end - life.start), life.start),
        lambda life: (life.start, -life.size),
        lambda life: (-life.end, -life.size),
        lambda life: (life.start - life.end, -life.size),
        lambda life: (not life.start <= when <= life.end, -life.size, life.start),
        lambda life: (max(life.start - when, when - life.end, 0), -life.size),
    ]
    return [lambda index, way=way: way(lifetimes[index]) for way in ways]


class _Table:
    """The lifetimes as columns of numbers, so that those that meet one are found at once."""

    def __init__(self, lifetimes: Sequence[Lifetime]) -> None:
        self.starts = np.array([life.start for life in lifetimes], np.int64)
        self.ends = np.array([life.end for life in lifetimes], np.int64)
        self.sizes = [life.size for life in lifetimes]

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
    table: _Table, order: Sequence[int], bound: int, placements: int
) -> Iterator[Addresses]:
    """Place again and again, what lay above the bound before the others."""
    order = list(order)
    for _ in range(placements // max(len(order), 1)):
        addresses = table.fill(order, _lowest)
        yield addresses
        above = {i for i in order if addresses[i] + table.sizes[i] > bound}
        order = [*(i for i in order if i in above), *(i for i in order if i not in above)]
