"""The order of units that are panels of weights with blocks of rows.

Threads divide a phase by its units in their order. If a thread has whole blocks, it finds most of
the rows that it reads in its own cache, where it wrote them in the step before; if it has whole
panels, it reads fewer weights.
"""

from __future__ import annotations

from enum import Enum

from afterglow.backends.cpu.llvm.emitter import Index, larger, quotient, remainder, select
from afterglow.backends.cpu.micro.kernel import Phase
from afterglow.backends.cpu.micro.rows import split
from afterglow.backends.cpu.target import Target
from afterglow.types.extent import largest


class UnitOrder(Enum):
    """What neighbouring units share."""

    PANELS = "a panel"
    BLOCKS = "a block"
    CHUNKS = "a panel, of the units of a thread, which are whole blocks as far as can be"

    @staticmethod
    def of(rows: int, weights: int, target: Target) -> UnitOrder:
        """The order that reads slow memory least, given the bytes of all rows and all weights.

        Each thread reads all weights if it has blocks, and all rows if it has panels: half of rows
        of a team of two come from the other core's cache.
        """
        fast = target.caches.l2 // 2
        if not fast >= weights > 0:
            return UnitOrder.PANELS
        if largest(rows) > fast:
            return UnitOrder.BLOCKS
        return UnitOrder.CHUNKS if 2 * largest(rows) > weights else UnitOrder.PANELS


class OrderedUnits:
    """Which panel and which block each unit of a phase is. Open before loops."""

    def __init__(self, p: Phase, panels: int, blocks: int, order: UnitOrder) -> None:
        self.e, self.panels, self.blocks, self.order = p.e, panels, blocks, order
        if order is UnitOrder.CHUNKS:
            self.first = quotient(p.begin + (panels - 1), panels)
            self.count = larger(quotient(p.end, panels) - self.first, 1)
            self.end = quotient(p.end, panels) * panels

    def place(self, unit: Index) -> tuple[Index, Index]:
        """The panel and the block of a unit."""
        if self.order is UnitOrder.PANELS:
            return split(unit, self.blocks)
        block, panel = split(unit, self.panels)
        if self.order is UnitOrder.BLOCKS or self.panels == 1:
            return panel, block
        here, start = self.e.index(unit), self.first * self.panels
        inside = (here >= start) & (here < self.end)
        place = here - start
        own_panel, own_block = quotient(place, self.count), remainder(place, self.count)
        return select(inside, own_panel, panel), select(inside, self.first + own_block, block)
