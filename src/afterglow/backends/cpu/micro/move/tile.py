"""True transposes: square tiles, turned in registers.

The operand is read along its own fast axis, the result written along its last one.
"""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    Index,
    Pointer,
    Value,
    equal,
    first_lanes,
    load_masked,
    select,
    smaller,
    transpose,
)
from afterglow.backends.cpu.micro.lanes import fitting_lanes
from afterglow.backends.cpu.micro.move.axes import MoveCut, StridedMove, pieces_of
from afterglow.backends.cpu.micro.move.blocks import Blocks
from afterglow.backends.cpu.micro.move.place import Fused, ResultPlace, has_masks, load_first
from afterglow.backends.cpu.micro.move.run import write_columns
from afterglow.backends.cpu.micro.rows import Row, split
from afterglow.types.extent import is_ranged, largest

MOST_LANES = 16
"""The largest side of a tile: that many vectors are in registers at once."""
TILES_OF_BLOCK = 16
"""Tiles that one piece has at most."""


class TransposeMove:
    """Strips along the operand's fast axis, as wide as a tile; tiles along the last axis."""

    def __init__(self, lanes: int, move: StridedMove, fast: int) -> None:
        self.width, self.height = move.extents[fast], move.extents[-1]
        self.row_step, self.column_step = move.to[fast], move.source[-1]
        longer = max(largest(self.width), largest(self.height))
        self.side = fitting_lanes(min(lanes, MOST_LANES), longer)
        self.blocks = Blocks(self.height, self.side, self.side * TILES_OF_BLOCK)
        self.strips = pieces_of(self.width, self.side)
        elements = min(largest(self.width), self.side) * self.blocks.most
        self.cut = MoveCut(self.strips * self.blocks.count, elements)

    def write(self, e: Emitter, out: ResultPlace, piece: Index, to: Index, source: Pointer) -> None:
        """Move a block of one strip; the last strip may be narrower than the others."""
        # Strips side by side read on in the same pages; a strip's next block is in others.
        block, strip = split(piece, self.strips)
        left = self.width % self.side
        start = strip * self.side
        to, source = to + start * self.row_step, source + start
        if is_ranged(left):
            self._write_ranged_strip(e, out, block, to, source, self.width - start)
        elif largest(self.strips) == 1:
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

        def rest(column: Index, height: Index) -> None:
            if isinstance(height, Value):
                self._write_edge(e, out, to, source, column, e.index(width), height)
            else:
                self._write_tile(out, to, source, column, width, height)

        self.blocks.write(e, block, step, rest)

    def _write_ranged_strip(
        self, e: Emitter, out: ResultPlace, block: Index, to: Index, source: Pointer, left: Index
    ) -> None:
        """A strip of which the code finds out whether it is narrower than a tile."""
        width = smaller(e.index(left), self.side)
        begin, whole = self.blocks.bounds(e, block)
        is_whole = equal(width, self.side)
        with e.when(is_whole), e.loop(whole, start=begin, step=self.side) as column:
            self._write_tile(out, to, source, column, self.side, self.side)
        start = select(is_whole, whole, begin)
        stop = smaller(begin + self.blocks.block, self.height)
        with e.loop(stop, start=start, step=self.side) as column:
            height = smaller(stop - column, self.side)
            self._write_edge(e, out, to, source, column, width, height)

    def _write_edge(
        self,
        e: Emitter,
        out: ResultPlace,
        to: Index,
        source: Pointer,
        column: Index,
        width: Value,
        height: Value,
    ) -> None:
        """A tile that is not whole, as large as the code finds it: under masks, or row by row."""
        if has_masks(source) and not isinstance(out, Fused):
            half = max(1, self.side // 2)
            with e.loop(width, step=half) as row, e.loop(height, step=half) as skipped:
                size = width - row, height - skipped
                at = row * self.row_step + to
                self._write_masked(out, at, source + row, skipped + column, half, *size)
            return
        lanes = self.side if isinstance(out, Fused) else 1  # steps that follow are written once
        with e.loop(width) as place:
            line = out.at(place * self.row_step + to)
            write_columns(e, line, Row(source + place, self.column_step), column, height, lanes)

    def _write_masked(
        self,
        out: ResultPlace,
        to: Index,
        source: Pointer,
        column: Index,
        side: int,
        width: Value,
        height: Value,
    ) -> None:
        """A square under masks; rows that do not count are written where the first one follows."""
        place = source + column * self.column_step
        wide, high = first_lanes(width, side), first_lanes(height, side)
        lines = [smaller(height.like(at), height - 1) for at in range(side)]
        starts = [place + line * self.column_step for line in lines]
        turned = transpose([load_masked(start, wide) for start in starts])
        for at in reversed(range(side)):
            row = select(width > at, width.like(at), 0) if at else 0
            out.at(row * self.row_step + to).put_masked(column, turned[at], high)

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
        side = fitting_lanes(self.side, max(width, height))
        place = source + column * self.column_step
        starts = [place + at * self.column_step for at in range(height)]
        rows = [load_first(Row(start, 1), 0, width, side) for start in starts]
        rows += [rows[0]] * (side - height)
        for at, turned in enumerate(transpose(rows)[:width]):
            out.at(to + at * self.row_step).put(column, turned, height)
