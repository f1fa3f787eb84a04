"""The cheapest way through a function within a limit: which groups run in bands, and how many.

Groups run as a whole where they fit, and stretches of them in bands where they do not. What a
stretch takes does not depend on the others, so the cheapest way is a shortest path. How much memory
bands take is first bounded from below; only the bands on the path are really measured, and if they
take too much, the path is searched for again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import field
from itertools import accumulate
from typing import TypeAlias

from afterglow.lowering.splitting.profile import Memory, Profile
from afterglow.lowering.splitting.region import Region, widest
from afterglow.lowering.splitting.rewrite import Plan, Split, band_function
from afterglow.lowering.splitting.walk import Walk, counts_up_to
from afterglow.support.lazy_dataclass import dataclass

MOST_GROUPS = 40
"""How many groups may run in bands together."""
NODE_WORK = 10_000
"""What another node costs, in multiplications."""
NEVER = 2**62
"""More bytes than any limit: what cannot be done takes them."""


@dataclass(frozen=True)
class Way:
    """The groups from `first` to `last` in `count` bands along an axis of what they give."""

    first: int
    last: int
    axis: int
    count: int
    cost: int = field(compare=False)


_Ways: TypeAlias = dict[tuple[int, int], Way]
"""For a first and a last group, how to run them and those between."""


class Search:
    """Looks for plans of one function; remembers what it found out."""

    def __init__(self, profile: Profile, memory: Memory, meter: dict[Hashable, int]) -> None:
        self.profile = profile
        self.memory = memory
        self.meter = meter
        self._walks: dict[tuple[int, int, int], Walk] = {}
        self._measured: dict[Way, int] = {}
        """The bytes that a band of each way takes."""
        self._possible: dict[Way, bool] = {}
        self._regions: dict[tuple[int, int], Region] = {}

    def within(self, limit: int, most_held: int | None = None) -> Plan | None:
        """The cheapest plan whose parts take no more than a limit; None if there is none.

        Of it, no more than `most_held` is in use around bands all the time.
        """
        held = self._stretches(limit, limit if most_held is None else most_held)
        ways: _Ways = {}
        for last, firsts in held.items():
            ways.update(self._cheapest(last, firsts, limit))
        while (path := self._path(ways, limit)) is not None:
            unknown = [way for way in path if way not in self._measured]
            refused = [way for way in path if not unknown and not self._is_possible(way)]
            if not unknown and not refused:
                return self._plan(path)
            self._measured.update((way, self._measure(way)) for way in unknown)
            self._measured.update((way, NEVER) for way in refused)
            for way in (*unknown, *refused):
                del ways[way.first, way.last]
                firsts = {way.first: held[way.last][way.first]}
                ways.update(self._cheapest(way.last, firsts, limit))
        return None

    def _stretches(self, limit: int, most_held: int) -> dict[int, dict[int, int]]:
        """Stretches that hold a group which does not fit, and whose surroundings fit.

        For each last group, the first ones, with the bytes held around the bands.
        """
        profile = self.profile
        found: dict[int, dict[int, int]] = {}
        for first in range(len(profile.groups)):
            wide = False
            for last, held in profile.around(first, MOST_GROUPS):
                wide |= profile.live[last] > limit
                if wide and held <= most_held:
                    found.setdefault(last, {})[first] = held
        return found

    def _cheapest(self, last: int, held: Mapping[int, int], limit: int) -> _Ways:
        """For each first group, the cheapest way to the last that may fit."""
        found: _Ways = {}
        for axis in range(self.profile.rank(last)):
            for way in self._fitting(last, axis, held, limit):
                other = found.setdefault((way.first, last), way)
                if way.cost < other.cost:
                    found[way.first, last] = way
        return found

    def _fitting(self, last: int, axis: int, held: Mapping[int, int], limit: int) -> Iterator[Way]:
        """For each first group, the way along an axis with the fewest bands that may fit."""
        counts = counts_up_to(self.profile.most_bands(last, axis))
        if not counts:
            return
        most = self._may_fit(last, axis, counts[-1], held, limit)
        waiting = {way.first: held[way.first] for way in most}
        for count in counts:
            if not waiting:
                return
            for way in self._may_fit(last, axis, count, waiting, limit):
                yield way
                del waiting[way.first]

    def _may_fit(
        self, last: int, axis: int, count: int, held: Mapping[int, int], limit: int
    ) -> Iterator[Way]:
        """The ways with so many bands that are not known to take more than the limit."""
        walk = self._walk(last, axis, count)
        least = min(held.values())
        for first in sorted(held, reverse=True):
            reach = walk.reach(first)
            if reach is None or least + reach.bound > limit:  # earlier ones take even more
                return
            cost = reach.work + (count - 1) * reach.nodes * NODE_WORK
            way = Way(first, last, axis, count, cost)
            if held[first] + self._measured.get(way, reach.bound) <= limit:
                yield way

    def _walk(self, last: int, axis: int, count: int) -> Walk:
        key = last, axis, count
        if key not in self._walks:
            self._walks[key] = Walk(self.profile, last, axis, count)
        return self._walks[key]

    def _measure(self, way: Way) -> int:
        """The bytes that a band takes; more than there are if it cannot be computed."""
        region = self._region(way.first, way.last)
        middle = widest(self.profile.most_bands(way.last, way.axis), way.count)
        bands = [region.band(way.axis, i, way.count) for i in (0, middle, way.count - 1)]
        largest = max(bands, key=lambda band: NEVER if band is None else band.nbytes())
        if largest is None:
            return NEVER
        key = largest.structure()
        if key not in self.meter:
            self.meter[key] = self.memory.arena_of_part(band_function(largest))
        return self.meter[key]

    def _is_possible(self, way: Way) -> bool:
        """Whether every band can be computed."""
        if way not in self._possible:
            bands = self._region(way.first, way.last).bands(way.axis, way.count)
            self._possible[way] = all(band is not None for band in bands)
        return self._possible[way]

    def _region(self, first: int, last: int) -> Region:
        profile = self.profile
        if (first, last) not in self._regions:
            nodes = [node for group in profile.groups[first : last + 1] for node in group]
            region = Region(nodes, profile.function.escaping(), profile.pieces)
            self._regions[first, last] = region
        return self._regions[first, last]

    def _path(self, ways: _Ways, limit: int) -> list[Way] | None:
        """The cheapest sequence of whole groups and stretches, from the first to the last."""
        live = self.profile.live
        arriving: dict[int, list[Way]] = {}
        for way in ways.values():
            arriving.setdefault(way.last + 1, []).append(way)
        costs = [0] + [NEVER] * len(live)
        taken: list[Way | None] = [None] * len(costs)
        for position in range(1, len(costs)):
            if live[position - 1] <= limit:
                costs[position] = costs[position - 1]
            for way in arriving.get(position, ()):
                if costs[way.first] + way.cost < costs[position]:
                    costs[position], taken[position] = costs[way.first] + way.cost, way
        return None if costs[-1] >= NEVER else [*_walk_back(taken)][::-1]

    def _plan(self, path: list[Way]) -> Plan:
        groups = self.profile.groups
        old = {node: position for position, node in enumerate(self.profile.function.nodes)}
        ends = [0, *accumulate(map(len, groups))]
        splits = (Split(ends[w.first], ends[w.last + 1] - 1, w.axis, w.count) for w in path)
        return Plan(tuple(old[node] for group in groups for node in group), tuple(splits))


def _walk_back(taken: list[Way | None]) -> Iterator[Way]:
    """The ways on the path to the end, the last one first."""
    position = len(taken) - 1
    while position:
        way = taken[position]
        if way is None:
            position -= 1
        else:
            yield way
            position = way.first
