"""An axis in blocks: whole steps in a loop, and what is left in the last block."""

from __future__ import annotations

from collections.abc import Callable

from afterglow.backends.cpu.llvm.emitter import Emitter, Index, Value, differ, equal, smaller
from afterglow.backends.cpu.micro.move.axes import pieces_of
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.extent import is_ranged, larger_extent, largest

Rest = Callable[[Index, Index], None]
"""Writes what is left: from where on, and how much, which code for a range knows when it runs."""


@dataclass(frozen=True)
class Blocks:
    """An axis in steps, in blocks of `block` elements, which are whole steps."""

    extent: int
    step: int
    block: int

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return larger_extent(1, pieces_of(self.extent, self.block))

    @property
    def most(self) -> int:
        """How many elements a block has at most."""
        return min(largest(self.extent), self.block)

    def write(self, e: Emitter, number: Index, step: Callable[[Value], None], rest: Rest) -> None:
        """Go along one block; `rest` is given where less than a step is left, and how much."""
        start, stop = self.bounds(e, number)
        with e.loop(stop, start=start, step=self.step) as index:
            step(index)
        self.write_rest(e, number, rest)

    def bounds(self, e: Emitter, number: Index) -> tuple[Value, Value]:
        """Where the whole steps of a block begin and end."""
        whole = self.extent - self.extent % self.step
        if largest(self.count) == 1:
            return e.index(0), e.index(whole)
        start = e.index(number) * self.block
        return start, smaller(start + self.block, whole)

    def write_rest(self, e: Emitter, number: Index, rest: Rest) -> None:
        """What is left behind whole steps, if the block is the last one."""
        left = self.extent % self.step
        whole = self.extent - left
        if is_ranged(left):
            self._write_ranged_rest(e, number, rest)
        elif left == 0:
            return
        elif largest(self.count) == 1:
            rest(whole, left)
        else:
            with e.when(equal(e.index(number), self.count - 1)):
                rest(whole, left)

    def _write_ranged_rest(self, e: Emitter, number: Index, rest: Rest) -> None:
        left = e.index(self.extent % self.step)
        wanted = left > 0
        if largest(self.count) > 1:
            wanted = wanted & equal(e.index(number), self.count - 1)
        with e.when(wanted):
            rest(e.index(self.extent) - left, left)


def write_powers(
    e: Emitter, start: Index, left: Index, most: int, piece: Callable[[Index, int], None]
) -> None:
    """Write less than `most` elements as pieces of powers of two: from where on, and how many."""
    if isinstance(left, int):
        for skipped, width in powers(left):
            piece(start + skipped, width)
        return
    for width in reversed([1 << bit for bit in range((most - 1).bit_length())]):
        with e.when(differ(left & width, 0)):
            piece((left & (-2 * width)) + start, width)


def powers(count: int) -> list[tuple[int, int]]:
    """A count as a sum of powers of two, falling: where each begins, and itself."""
    pieces, start = [], 0
    while start < count:
        width = 1 << ((count - start).bit_length() - 1)
        pieces.append((start, width))
        start += width
    return pieces
