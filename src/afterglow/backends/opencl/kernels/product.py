"""The loops of a product over its tiles: which work-item does which, and in what order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from afterglow.backends.opencl.clc import Value
from afterglow.backends.opencl.kernels.kernel import Kernel
from afterglow.backends.opencl.kernels.tile import Panel, Rows, Sums, Tile
from afterglow.backends.opencl.limits import Limits
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType

ITEMS_OF_UNIT = 8
"""Work-items for each unit of a device, so that all end at about the same time."""


@dataclass(frozen=True)
class Extents:
    """Rows and columns of a product, the terms of each sum, and how many products there are."""

    rows: int
    columns: int
    terms: int
    count: int = 1


@dataclass(frozen=True)
class Work:
    """What one work-item does: so many tiles below each other, of so many panels."""

    extents: Extents
    tile: Tile
    tiles: int = 1
    panels: int = 1

    @property
    def all_tiles(self) -> int:
        """Tiles below each other in all."""
        return -(-self.extents.rows // self.tile.rows)

    @property
    def all_panels(self) -> int:
        """Panels beside each other in all."""
        return -(-self.extents.columns // self.tile.columns)

    @property
    def items(self) -> tuple[int, int, int]:
        """Work-items along rows, columns and products."""
        return (
            -(-self.all_tiles // self.tiles),
            -(-self.all_panels // self.panels),
            self.extents.count,
        )

    @staticmethod
    def by_panels(extents: Extents, tile: Tile, limits: Limits) -> Work:
        """A panel stays in the cache while many tiles of rows go by."""
        one = Work(extents, tile)
        shares = -(-ITEMS_OF_UNIT * limits.units // (one.all_panels * extents.count))
        return Work(extents, tile, tiles=max(1, one.all_tiles // shares))

    @staticmethod
    def by_rows(extents: Extents, tile: Tile, limits: Limits) -> Work:
        """A tile of rows stays in the cache while many panels go by."""
        one = Work(extents, tile)
        shares = -(-ITEMS_OF_UNIT * limits.units // (one.all_tiles * extents.count))
        return Work(extents, tile, panels=max(1, one.all_panels // shares))


class Operands(Protocol):
    """Where the numbers of a product are; methods may write code that brings them near."""

    def rows(self, first: Value) -> Rows:
        """The numbers of the rows of a tile, which begins at one."""

    def panel(self, panel: Value) -> Panel:
        """The columns of a panel."""

    def start(self, panel: Value) -> Panel | None:
        """What the sums of a panel begin with, if not with zeros."""

    def place(self, row: Value, column: Value) -> list[Value]:
        """The place of an element of the result."""


def write_product(kernel: Kernel, work: Work, operands: Operands, dtype: DType) -> None:
    """The loops of a work-item: over the panels for a tile of rows, or over tiles for a panel."""
    kernel.items, kernel.group = work.items, (1, 1, 1)
    writer = _Writer(kernel, work, operands, Sums(kernel, work.tile, dtype))
    if work.tiles == 1:
        own, first = writer.begin(kernel.code.work_item(0))
        rows = operands.rows(first)
        with part_of(kernel, 1, work.panels, work.all_panels) as panel:
            writer.write(own, first, rows, panel, operands.panel(panel))
        return
    panel = kernel.code.work_item(1)
    columns = operands.panel(panel)
    with part_of(kernel, 0, work.tiles, work.all_tiles) as tile:
        own, first = writer.begin(tile)
        writer.write(own, first, operands.rows(first), panel, columns)


@dataclass(frozen=True)
class _Writer:
    """Writes the code of one tile."""

    kernel: Kernel
    work: Work
    operands: Operands
    sums: Sums

    def begin(self, tile: Value) -> tuple[Value, Value]:
        """The first row that a tile writes, and the first that it computes.

        The last tile begins early enough to be whole, so that no row needs a question.
        """
        code, rows, height = self.kernel.code, self.work.extents.rows, self.work.tile.rows
        own = code.named(tile * height)
        return own, own if rows % height == 0 else code.named(code.smaller(own, rows - height))

    def write(self, own: Value, first: Value, rows: Rows, panel: Value, columns: Panel) -> None:
        """The sums of a tile and a panel, and what follows."""
        code, work = self.kernel.code, self.work
        self.sums.compute(work.extents.terms, rows, columns, self.operands.start(panel))
        column = code.named(panel * work.tile.columns)
        with code.loop(first + work.tile.rows, own) as row:
            self.sums.store(row, row - first, column, work.extents.columns, self.operands.place)


@contextmanager
def part_of(kernel: Kernel, axis: int, count: int, total: int) -> Iterator[Value]:
    """The things that a work-item does along an axis, one after the other."""
    item = kernel.code.work_item(axis)
    if count == 1:
        yield item
        return
    first = kernel.code.named(item * count)
    end = first + count if total % count == 0 else kernel.code.smaller(first + count, total)
    with kernel.code.loop(kernel.code.named(end), first) as index:
        yield index
