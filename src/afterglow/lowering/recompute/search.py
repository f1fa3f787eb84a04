"""Which segments to compute again: those that save most for the time that they take."""

from __future__ import annotations

from collections.abc import Iterator

from afterglow.graph import Value
from afterglow.lowering.recompute.forward import Cost, Forward
from afterglow.lowering.recompute.segments import Segments, narrow_segments
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Choice:
    """Segments that run again, and what that costs and takes by estimate."""

    segments: Segments
    chosen: frozenset[int]
    cost: float
    """The time that it takes, in the units of the cost of nodes."""
    held: int
    """The most bytes of the forward pass that are held at once in the backward pass."""

    def kept(self) -> set[Value]:
        """The values that it keeps."""
        return self.segments.kept(self.chosen)


def choices(forward: Forward, cost: Cost) -> list[Choice]:
    """Ways to hold less, each with less than all that are cheaper."""
    finest = narrow_segments(forward)
    counts = {finest.count}
    while min(counts) > 2:
        counts.add((min(counts) + 1) // 2)
    found = [c for count in counts for c in ways(finest.merged(count), cost)]
    found.sort(key=lambda choice: (choice.cost, choice.held))
    best: list[Choice] = []
    for choice in found:
        if not best or choice.held < best[-1].held:
            best.append(choice)
    return best


def ways(segments: Segments, cost: Cost) -> Iterator[Choice]:
    """Segments chosen one after the other: at each time the one that saves most for its cost.

    While a segment runs backward, all that it holds is there, and what those before it keep.
    """
    costs = segments.costs(cost)
    chosen: frozenset[int] = frozenset()
    while True:
        live = held_at(segments, chosen)
        yield Choice(segments, chosen, sum(costs[i] for i in chosen), max(live))
        peak = live.index(max(live))
        gains = {
            index: (segments.held[index] - segments.left[index]) / max(costs[index], 1.0)
            for index in range(peak)
            if index not in chosen and segments.held[index] > segments.left[index]
        }
        if not gains:
            return
        chosen |= {max(gains, key=gains.__getitem__)}


def held_at(segments: Segments, chosen: frozenset[int]) -> list[int]:
    """The bytes of the forward pass that are there while each segment runs backward."""
    live, before = [], 0
    for index in range(segments.count):
        live.append(before + segments.held[index])
        before += segments.left[index] if index in chosen else segments.held[index]
    return live
