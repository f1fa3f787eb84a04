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

from afterglow.memory.lifetimes import Lifetime, lower_bound
from afterglow.memory.placement import arena_of

MOST_LIFETIMES = 400
"""More are not searched: it is hopeless, and the search is as deep as there are lifetimes."""


def improve(lifetimes: Sequence[Lifetime], addresses: Sequence[int], steps: int) -> list[int]:
    """The placement with the smallest arena there is, or the best that is found in the steps."""
    best, arena = list(addresses), arena_of(lifetimes, addresses)
    if len(lifetimes) > MOST_LIFETIMES:
        return best
    search = _Search(lifetimes)
    unit = math.gcd(*(life.size for life in lifetimes))
    too_small, capacity = -unit, lower_bound(lifetimes)
    while too_small + unit < arena and steps > 0:
        allowed = -(-steps // 2)
        found = search.fit(capacity, allowed)
        steps -= allowed - max(search.steps, 0)
        if found is None:  # also if it could not be found in half of the steps that are left
            too_small = capacity
        else:
            best, arena = found, capacity
        capacity = (too_small + arena) // 2 // unit * unit
    return best


class _OutOfStepsError(Exception):
    """The search has used up its steps."""


class _Search:
    """Time as a row of columns, each as high as what was put there."""

    def __init__(self, lifetimes: Sequence[Lifetime]) -> None:
        self.sizes = [life.size for life in lifetimes]
        self.columns = _columns(lifetimes)
        self.load = [0] * (1 + max(columns[-1] for columns in self.columns))
        """Bytes to be put on each column."""
        for size, columns in zip(self.sizes, self.columns, strict=True):
            for column in columns:
                self.load[column] += size
        self.addresses = [0] * len(lifetimes)

    def fit(self, capacity: int, steps: int) -> list[int] | None:
        """A placement that is not higher; None if there is none, or it takes more steps."""
        self.capacity = capacity
        self.steps = steps
        self.heights, self.waiting = [0] * len(self.load), list(self.load)
        try:
            found = self._place(list(range(len(self.sizes))), 0, -1)
        except _OutOfStepsError:
            return None
        return list(self.addresses) if found else None

    def _place(self, lifetimes: Sequence[int], floor: int, last: int) -> bool:
        """Place all; nothing lower than `floor`, and at the floor only what comes after `last`."""
        if not self._has_room(lifetimes, floor):
            return False
        return all(self._place_part(part, floor, last) for part in self._parts(lifetimes))

    def _place_part(self, part: list[int], floor: int, last: int) -> bool:
        """The same for lifetimes that hang together."""
        self.steps -= len(part)
        if self.steps < 0:
            raise _OutOfStepsError
        tops = {index: max(self.heights[c] for c in self.columns[index]) for index in part}
        lowest_end = min(tops[index] + self.sizes[index] for index in part)
        heights, waiting = self.heights, self.waiting
        for index in sorted(part, key=lambda index: (tops[index], *self._ease(index))):
            if (tops[index], index) <= (floor, last) or tops[index] >= lowest_end:
                continue
            self.heights, self.waiting = list(heights), list(waiting)
            self._put(index, tops[index])
            if self._place([other for other in part if other != index], tops[index], index):
                return True
        return False

    def _ease(self, index: int) -> tuple[int, int]:
        """What is hard to place comes first: what meets much, then what is large."""
        columns = self.columns[index]
        return -max(self.load[c] for c in columns), -self.sizes[index] * len(columns)

    def _put(self, index: int, address: int) -> None:
        self.addresses[index] = address
        for column in self.columns[index]:
            self.heights[column] = address + self.sizes[index]
            self.waiting[column] -= self.sizes[index]

    def _has_room(self, lifetimes: Sequence[int], floor: int) -> bool:
        """Whether all of them fit above the floor, each column by itself."""
        columns = {column for index in lifetimes for column in self.columns[index]}
        return all(max(self.heights[c], floor) + self.waiting[c] <= self.capacity for c in columns)

    def _parts(self, lifetimes: Sequence[int]) -> list[list[int]]:
        """Those that have no column in common with others, apart."""
        parts: list[list[int]] = []
        reached = -1
        for index in sorted(lifetimes, key=lambda index: self.columns[index][0]):
            if self.columns[index][0] > reached:
                parts.append([])
            parts[-1].append(index)
            reached = max(reached, self.columns[index][-1])
        return parts


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
