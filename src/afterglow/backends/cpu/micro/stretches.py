"""Units as fine as a tile with a panel, done in stretches that share the panel.

Threads divide a phase by units. Fine units keep many threads busy, and cores of different speed;
coarse ones read a panel once for many tiles. Both are had if a unit is a tile, and code that is
given a range of units does all tiles of it that share a panel together. A thread alone is given
all units, so it works as if there were none.
"""

from __future__ import annotations

from collections.abc import Callable

from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    Index,
    Value,
    quotient,
    remainder,
    smaller,
)
from afterglow.backends.cpu.micro.tile import tiles_of_block
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.extent import is_ranged


@dataclass(frozen=True)
class Stretch:
    """Tiles `first` to `last - 1`, all of one block, with a panel."""

    block: Index
    panel: Value
    first: Value
    last: Value


@dataclass(frozen=True)
class TileUnits:
    """Tiles in blocks, with panels: a unit is a tile with a panel, by block, panel, then tile.

    Blocks differ by a tile at most. Each of the numbers may be an extent.
    """

    tiles: int
    blocks: int
    panels: int

    @property
    def count(self) -> int:
        """The number of units."""
        return self.tiles * self.panels

    @property
    def stretches(self) -> int:
        """Stretches of all units; 0 if it is found as the code runs how many there are."""
        count = self.blocks * self.panels
        return 0 if is_ranged(count) or is_ranged(self.tiles) else count

    def write(self, e: Emitter, begin: Value, end: Value, write: Callable[[Stretch], None]) -> None:
        """Write a loop over the stretches of a range of units."""

        def write_one(state: list[Value]) -> list[Value]:
            (unit,) = state
            stretch = self._stretch(e, unit, end)
            write(stretch)
            return [unit + (stretch.last - stretch.first)]

        e.iterate([begin], write_one, while_=lambda state: state[0] < end)

    def _stretch(self, e: Emitter, unit: Value, end: Value) -> Stretch:
        """What begins with a unit: up to the end of its block, or of the range."""
        block: Index = 0
        if self.blocks != 1:  # the last block that begins with this tile or before
            tile = quotient(unit, e.index(self.panels))
            block = quotient((tile + 1) * self.blocks - 1, e.index(self.tiles))
        start, stop = (e.index(n) for n in tiles_of_block(e, block, self.tiles, self.blocks))
        place, size = unit - start * self.panels, stop - start
        first = start + remainder(place, size)
        last = smaller(stop, first + (end - unit))
        return Stretch(block, quotient(place, size), first, last)
