"""Ways to run stretches of groups in bands: what they cost, and the memory they take at least.

A band is followed backwards from the end of a stretch. Where the stretch begins makes no difference
to what comes after, so one walk tells about all stretches with the same end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from afterglow.graph import Band, Cut, Node, Value
from afterglow.lowering.splitting.profile import Profile
from afterglow.lowering.splitting.region import part_of, widest
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Reach:
    """What a walk knows of a stretch."""

    bound: int
    """The bytes that a band takes at least."""
    work: int
    """How much more is computed than without bands, about."""
    nodes: int
    """How many nodes a band has."""


class Walk:
    """A wide one of `count` bands, along an axis of what the groups up to `last` give."""

    def __init__(self, profile: Profile, last: int, axis: int, count: int) -> None:
        self.profile = profile
        self.last = last
        self.axis = axis
        self.count = count
        self._reaches: list[Reach] = []
        self._ended = False
        self._needs: dict[Value, Cut] = {}
        self._whole: set[Value] = set()
        """Values that cannot be cut: the walk ends where they are made."""
        self._sizes: dict[Value, int] = {}
        self._taken: dict[int, int] = {}
        """The bytes that each group needs at once."""
        self._work = 0
        extent = profile.most_bands(last, axis)
        self._index = widest(extent, count)
        band = extent * (self._index + 1) // count - extent * self._index // count
        self._narrower = 1 - band * count / extent
        """By how much the bands together are less than as many of this one."""

    def reach(self, first: int) -> Reach | None:
        """What is known of the stretch that begins at a group; None if it cannot run in bands."""
        while len(self._reaches) <= self.last - first and not self._ended:
            self._ended = not self._add(self.last - len(self._reaches))
        return self._reaches[self.last - first] if len(self._reaches) > self.last - first else None

    def _add(self, position: int) -> bool:
        """Go back by one group; False if it cannot run in bands."""
        group = self.profile.groups[position]
        if not all(self._visit(node) for node in reversed(group)):
            return False
        before = self._reaches[-1] if self._reaches else Reach(0, 0, 0)
        bound = max([before.bound, *self._take(position)])
        self._reaches.append(Reach(bound, self._work, before.nodes + len(group)))
        return True

    def _visit(self, node: Node) -> bool:
        """Say what a node needs; False if it cannot be cut."""
        cuts = list(self._cuts(node))
        if not cuts:
            return self._whole.isdisjoint(node.results)
        known = [cut for cut in cuts if cut is not None]
        piece = self.profile.pieces.piece(node, known) if len(known) == len(cuts) else None
        if piece is None:
            return False
        cut = piece.cut
        self._demand(node, piece.band)
        extent = node.results[0].type.shape[cut.axis]
        share = self.count * cut.extent / extent + self._narrower
        self._work += int(self.profile.work[node] * max(0.0, share - 1))
        for result in node.results:
            self._sizes[result] = result.type.nbytes * cut.extent // extent
        return True

    def _cuts(self, node: Node) -> Iterator[Cut | None]:
        """The parts of a node's results that are needed; None for what cannot be had in parts."""
        for result in node.results:
            if result in self._whole:
                yield None
            if result in self._needs:
                yield self._needs[result]
            if self.profile.last_use[result] > self.last:
                shape = result.type.shape
                divides = self.axis < len(shape) and shape[self.axis] >= self.count
                yield part_of(result, self.axis, self._index, self.count) if divides else None

    def _demand(self, node: Node, band: Band) -> None:
        if node.predicate is not None:
            self._whole.add(node.predicate)
        for operand, cut in zip(node.operands, band.cuts, strict=True):
            if operand is None:
                continue
            known = self._needs.get(operand, cut)
            if cut is None or known is None or known.axis != cut.axis:
                self._whole.add(operand)
            else:
                self._needs[operand] = known.hull(cut)

    def _take(self, position: int) -> Iterator[int]:
        """Count what a group makes, for itself and for those that read it."""
        for node in self.profile.groups[position]:
            for result in node.results:
                if self.profile.last_use[result] <= self.last:
                    for group in self.profile.present[result]:
                        size = self._taken.get(group, 0) + self._sizes.get(result, 0)
                        self._taken[group] = size
                        yield size


def counts_up_to(most: int) -> Sequence[int]:
    """Numbers of bands to try: in steps of about a quarter, and the most there can be."""
    counts = [count for count in _COUNTS if count < most]
    return [*counts, most] if 1 < most <= _COUNTS[-1] else counts


def _steps(most: int) -> Iterator[int]:
    count = 2
    while count <= most:
        yield count
        count += max(1, count // 4)


_COUNTS = tuple(_steps(256))
