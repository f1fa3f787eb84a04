"""Segments: stretches of the forward pass between narrow points, which may be computed again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise

from afterglow.graph import Node, Value
from afterglow.lowering.recompute.forward import Cost, Forward, is_heavy
from afterglow.lowering.recompute.keep import values_to_keep
from afterglow.support.lazy_dataclass import dataclass

FEW = 4
"""There are enough narrow points if the forward pass has this many for each of its roots."""


@dataclass(frozen=True)
class Segments:
    """The forward pass, cut at some positions: the first is 0, the last is its length."""

    forward: Forward
    cuts: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.cuts) - 1

    def nodes(self, index: int) -> Sequence[Node]:
        """The nodes of a segment."""
        return self.forward.nodes[self.cuts[index] : self.cuts[index + 1]]

    def runs_again(self, chosen: frozenset[int]) -> set[Node]:
        """The nodes that may run again: light ones, and those of chosen segments.

        What crosses the end of a chosen one is kept, so that no other runs with it.
        """
        again = {*self.forward.light}.union(*(self.nodes(index) for index in chosen))
        for index in chosen:
            passed = crossing(self.forward, self.cuts[index + 1])
            again.difference_update(value.producer for value in passed if value.producer)
        return again

    def kept(self, chosen: frozenset[int]) -> set[Value]:
        """The values that are kept if chosen segments run again."""
        return values_to_keep(self.forward, self.runs_again(chosen))

    @cached_property
    def held(self) -> list[int]:
        """The bytes that each segment keeps if none runs again, but for light nodes."""
        return self._bytes(values_to_keep(self.forward, self.forward.light))

    @cached_property
    def left(self) -> list[int]:
        """The bytes that each segment keeps if all run again: what crosses their ends."""
        return self._bytes(self.kept(frozenset(range(self.count))))

    def _bytes(self, kept: set[Value]) -> list[int]:
        sizes = [0] * self.count
        for index in range(self.count):
            for node in self.nodes(index):
                sizes[index] += sum(v.type.nbytes for v in node.results if v in kept)
        return sizes

    def costs(self, cost: Cost) -> list[float]:
        """How long it takes to run each segment again."""
        return [sum(cost(n) for n in self.nodes(i) if is_heavy(n)) for i in range(self.count)]

    def merged(self, count: int) -> Segments:
        """Fewer segments, which keep about as much as each other."""
        total, taken = sum(self.held), 0
        cuts = [0]
        for index, held in enumerate(self.held[:-1]):
            taken += held
            if taken * count >= total * len(cuts) and len(cuts) < count:
                cuts.append(self.cuts[index + 1])
        return Segments(self.forward, (*cuts, self.cuts[-1]))


def crossing(forward: Forward, cut: int) -> list[Value]:
    """The values that the forward pass makes before a position and reads behind it."""
    return [
        value
        for node in forward.nodes[:cut]
        for value in node.results
        if any(position >= cut for position in forward.readers(value))
    ]


def segments_at(forward: Forward, checkpoints: Sequence[Node]) -> Segments:
    """Segments that end behind given nodes."""
    inner = sorted({forward.position[node] + 1 for node in checkpoints})
    end = len(forward.nodes)
    return Segments(forward, (0, *(cut for cut in inner if cut < end), end))


def narrow_segments(forward: Forward) -> Segments:
    """Segments between the narrowest points: between two heavy nodes, where least crosses."""
    end = len(forward.nodes)
    heavy = [i for i, node in enumerate(forward.nodes) if is_heavy(node)]
    widths = _widths(forward)
    gaps = [min(range(a + 1, b + 1), key=widths.__getitem__) for a, b in pairwise(heavy)]
    if not gaps:
        return Segments(forward, (0, end))
    most = min(widths[gap][0] for gap in gaps)
    narrow: list[int] = []
    while len(narrow) ** 2 * FEW < len(gaps):
        narrow = [gap for gap in gaps if widths[gap][0] <= most]
        most += 1
    return Segments(forward, (0, *dict.fromkeys(narrow), end))


def _widths(forward: Forward) -> list[tuple[int, int]]:
    """For each position, how many values cross it that are not tiny, and their bytes."""
    changes = [[0, 0] for _ in range(len(forward.nodes) + 2)]
    for value, first, last in _spans(forward):
        for position, sign in ((first, 1), (last + 1, -1)):
            changes[position][0] += sign
            changes[position][1] += sign * value.type.nbytes
    widths, count, size = [], 0, 0
    for change in changes:
        count, size = count + change[0], size + change[1]
        widths.append((count, size))
    return widths


def _spans(forward: Forward) -> Iterator[tuple[Value, int, int]]:
    """Values with the first and the last position that they cross."""
    for value in forward.results():
        readers = forward.readers(value)
        if readers and value.type.nbytes > forward.tiny and value.producer is not None:
            yield value, forward.position[value.producer] + 1, max(readers)
