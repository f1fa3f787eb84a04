"""Addresses for lifetimes, exactly: a search that ends with the smallest arena there is.

A placement can be pressed down until everything lies at the bottom or on something else. So it is
enough to put one lifetime after the other on top of what lies there already, in order of address:
the search tries which comes next. Of several placements it looks for the one whose addresses have
the smallest sum, which rules out most:

- nothing may be put above a place in which something else would still fit;
- what comes later lies no lower, so at each time all that is still to come must fit above;
- parts that do not meet in time are searched apart.

Effort is counted in steps, not in seconds: the same lifetimes always give the same addresses.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from afterglow.memory.liveness import Lifetime, lower_bound
from afterglow.memory.placement import arena_of

MOST_LIFETIMES = 400
"""More are not searched: it is hopeless, and the search is as deep as there are lifetimes."""


def improve(lifetimes: Sequence[Lifetime], addresses: Sequence[int], steps: int) -> list[int]:
    """The placement with the smallest arena there is, or the best that is found in the steps."""
    best, arena = list(addresses), arena_of(lifetimes, addresses)
    if len(lifetimes) > MOST_LIFETIMES:
        return best
    search = _Search(lifetimes, steps)
    unit = math.gcd(*(life.size for life in lifetimes))
    too_small, capacity = -unit, lower_bound(lifetimes)
    while too_small + unit < arena:
        try:
            found = search.fit(capacity)
        except _OutOfStepsError:
            break
        if found is None:
            too_small = capacity
        else:
            best, arena = found, capacity
        capacity = (too_small + arena) // 2 // unit * unit
    return best


class _OutOfStepsError(Exception):
    """The search has used up its steps."""


class _Search:
    """Time as a row of columns, each as high as what was put there."""

    def __init__(self, lifetimes: Sequence[Lifetime], steps: int) -> None:
        self.steps = steps
        self.sizes = [life.size for life in lifetimes]
        self.columns = _columns(lifetimes)
        count = 1 + max(columns[-1] for columns in self.columns)
        self.load = [0] * count
        for size, columns in zip(self.sizes, self.columns, strict=True):
            for column in columns:
                self.load[column] += size
        self.heights = [0] * count
        self.waiting = self.load
        """Bytes that are still to be put on each column."""
        self.addresses = [0] * len(lifetimes)
        self.capacity = 0

    def fit(self, capacity: int) -> list[int] | None:
        """A placement that is not higher, or None if there is none."""
        self.capacity = capacity
        self.heights, self.waiting = [0] * len(self.load), list(self.load)
        order = sorted(range(len(self.sizes)), key=self._difficulty)
        return list(self.addresses) if self._place(order, 0, -1) else None

    def _difficulty(self, index: int) -> tuple[int, int]:
        columns = self.columns[index]
        return -max(self.load[c] for c in columns), -self.sizes[index] * len(columns)

    def _place(self, lifetimes: list[int], floor: int, last: int) -> bool:
        """Place all; nothing lower than `floor`, and at the floor only what comes after `last`."""
        if not self._has_room(lifetimes, floor):
            return False
        return all(self._place_part(part, floor, last) for part in self._parts(lifetimes))

    def _place_part(self, part: list[int], floor: int, last: int) -> bool:
        self.steps -= len(part)
        if self.steps < 0:
            raise _OutOfStepsError
        tops = {i: max(self.heights[c] for c in self.columns[i]) for i in part}
        lowest_end = min(tops[i] + self.sizes[i] for i in part)
        kept = list(self.heights), list(self.waiting)
        for index in part:
            if (tops[index], index) <= (floor, last) or tops[index] >= lowest_end:
                continue
            self._put(index, tops[index])
            if self._place([i for i in part if i != index], tops[index], index):
                return True
            self.heights, self.waiting = list(kept[0]), list(kept[1])
        return False

    def _put(self, index: int, address: int) -> None:
        self.addresses[index] = address
        for column in self.columns[index]:
            self.heights[column] = address + self.sizes[index]
            self.waiting[column] -= self.sizes[index]

    def _has_room(self, lifetimes: Sequence[int], floor: int) -> bool:
        """Whether all of them fit above the floor, each column by itself."""
        columns = {column for index in lifetimes for column in self.columns[index]}
        return all(
            max(self.heights[c], floor) + self.waiting[c] <= self.capacity for c in columns
        )

    def _parts(self, lifetimes: Sequence[int]) -> list[list[int]]:
        """Those that have no column in common with others, apart."""
        parts: list[list[int]] = []
        reached = -1
        for index in sorted(lifetimes, key=lambda index: self.columns[index][0]):
            if self.columns[index][0] > reached:
                parts.append([])
            parts[-1].append(index)
            reached = max(reached, self.columns[index][-1])
        return [sorted(part, key=self._difficulty) for part in parts]


def _columns(lifetimes: Sequence[Lifetime]) -> list[range]:
    """For each lifetime its columns; there is one for each largest set of things live at once."""
    starts = sorted({life.start for life in lifetimes})
    ends = sorted(life.end for life in lifetimes)
    moments = [
        start
        for start, following in zip(starts, [*starts[1:], math.inf], strict=True)
        if bisect_left(ends, start) < bisect_left(ends, following)
    ]
    return [
        range(bisect_left(moments, life.start), bisect_right(moments, life.end))
        for life in lifetimes
    ]
