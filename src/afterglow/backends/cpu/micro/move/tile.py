"""True transposes: square tiles, turned in registers.

The operand is read along its own fast axis, the result written along its last one.
"""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter import Emitter, Index, Pointer, Value, equal, transpose
from afterglow.backends.cpu.micro.move.axes import MoveCut, StridedMove
from afterglow.backends.cpu.micro.move.blocks import Blocks
from afterglow.backends.cpu.micro.move.place import ResultPlace, load_first
from afterglow.backends.cpu.micro.move.run import fitting
from afterglow.backends.cpu.micro.rows import Row, split

MOST_LANES = 16
"""The largest side of a tile: that many vectors are in registers at once."""
TILES_OF_BLOCK = 16
"""Tiles that one piece has at most."""


class TransposeMove:
    """Strips along the operand's fast axis, as wide as a tile; tiles along the last axis."""

    def __init__(self, lanes: int, move: StridedMove, fast: int) -> None:
        self.width, self.height = move.extents[fast], move.extents[-1]
        self.row_step, self.column_step = move.to[fast], move.source[-1]
        self.side = fitting(min(lanes, MOST_LANES), max(self.width, self.height))
        self.blocks = Blocks(self.height, self.side, self.side * TILES_OF_BLOCK)
        self.strips = -(-self.width // self.side)
        elements = min(self.width, self.side) * min(self.height, self.blocks.block)
        self.cut = MoveCut(self.strips * self.blocks.count, elements)

    def write(self, e: Emitter, out: ResultPlace, piece: Index, to: Index, source: Pointer) -> None:
        """Move a block of one strip; the last strip may be narrower than the others."""
        # Strips side by side read on in the same pages; a strip's next block is in others.
        block, strip = split(piece, self.strips) if self.strips > 1 else (piece, 0)
        left = self.width % self.side
        start = strip * self.side
        to, source = to + start * self.row_step, source + start
        if self.strips == 1:
            self._write_strip(e, out, block, to, source, left or self.side)
        elif left == 0:
            self._write_strip(e, out, block, to, source, self.side)
        else:
            last = equal(e.index(strip), self.strips - 1)
            with e.when(~last):
                self._write_strip(e, out, block, to, source, self.side)
            with e.when(last):
                self._write_strip(e, out, block, to, source, left)

    def _write_strip(
        self, e: Emitter, out: ResultPlace, block: Index, to: Index, source: Pointer, width: int
    ) -> None:
        def step(column: Value) -> None:
            self._write_tile(out, to, source, column, width, self.side)

        def rest(column: int, height: int) -> None:
            self._write_tile(out, to, source, column, width, height)

        self.blocks.write(e, block, step, rest)

    def _write_tile(
        self, out: ResultPlace, to: Index, source: Pointer, column: Index, width: int, height: int
    ) -> None:
        """One tile; of those that are not whole, quarters, which are much faster to compile."""
        side = self.side if width == height == self.side else max(1, self.side // 2)
        for row in range(0, width, side):
            for skipped in range(0, height, side):
                size = min(side, width - row), min(side, height - skipped)
                place, at = source + row, to + row * self.row_step
                self._write_square(out, at, place, column + skipped, *size)

    def _write_square(
        self, out: ResultPlace, to: Index, source: Pointer, column: Index, width: int, height: int
    ) -> None:
        side = fitting(self.side, max(width, height))
        place = source + column * self.column_step
        starts = [place + at * self.column_step for at in range(height)]
        rows = [load_first(Row(start, 1), 0, width, side) for start in starts]
        rows += [rows[0]] * (side - height)
        for at, turned in enumerate(transpose(rows)[:width]):
            out.at(to + at * self.row_step).put(column, turned, height)
