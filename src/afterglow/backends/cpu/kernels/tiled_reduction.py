"""Reductions of what is computed from few elements: a tile of results at once, in registers.

If a step before a reduction combines operands that are broadcast, as `a[i, k] - b[j, k]` is, an
element that was loaded serves several lines: a tile is some neighbouring lines by some vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from afterglow.backends.cpu.kernels.line_tile import LineTile, TransposedOperand
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Value,
    convert,
    equal,
    first_lanes,
    fma,
    smaller,
)
from afterglow.backends.cpu.micro.access import RowWriter, Writer, open_sink
from afterglow.backends.cpu.micro.cost import REDUCED_ELEMENT, work_of
from afterglow.backends.cpu.micro.fusion import Chain, ChainRow, as_declared
from afterglow.backends.cpu.micro.kernel import Kernel, Phase
from afterglow.backends.cpu.micro.reduction_line import ROWS_AT_ONCE
from afterglow.backends.cpu.micro.rows import Rows, split
from afterglow.instr import Buffer
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class TileFold:
    """How elements become a result: what they are combined with first, how, and what is left."""

    initial: float
    combine: Callable[[Value, Value], Value]
    finish: Callable[[Value], Value]
    sums_products: bool = False
    """Whether the last step before is a product, and the sum of these is wanted."""


def write_tiled(k: Kernel, tile: LineTile, fold: TileFold, work: float) -> None:
    """A unit is a tile; operands are transposed first, where that makes columns contiguous."""
    layout = tile.layout
    for buffer, operand in tile.transposed.items():
        _transpose(k, tile, buffer, operand)
    with k.phase(tile.units, work, "tiles") as p:
        chain = Chain(p, k.job.before, layout.shape, [], [], layout.source)
        for buffer, operand in tile.transposed.items():
            chain.read[buffer] = Rows(p.workspace(operand.name), layout.shape, operand.placed)
        sink = open_sink(p, layout.result_shape, layout.result_sink)
        with p.units() as unit:
            rest, group = split(unit, tile.groups)
            rest, block = split(rest, tile.blocks)
            column = p.e.index(group) * (tile.side * tile.lines.lanes)
            first = p.e.index(block) * tile.height
            place = _with_axis(tile, _numbers(_others(tile), rest), first)
            writer = _TileWriter(p, tile, fold, chain, sink, place, column)
            _of_each_height(p, tile, p.e.index(block), writer.write)


def _transpose(k: Kernel, tile: LineTile, buffer: Buffer, operand: TransposedOperand) -> None:
    """Copy an operand, a row of columns a unit."""
    shape, lanes = operand.shape, tile.lines.lanes
    rows = math.prod(shape[:-1])
    with k.phase(rows, work_of(rows * shape[-1], REDUCED_ELEMENT), operand.name) as p:
        source = Rows(p.pointer(buffer), shape, operand.source)
        copy = Rows(p.workspace(operand.name), shape, operand.copy)
        with p.units() as number:
            read, written = source.row(number), copy.row(number)
            with p.e.loop(shape[-1], step=lanes) as column:
                mask = first_lanes(shape[-1] - column, lanes) if shape[-1] % lanes else None
                written.store(read.load(column, lanes, mask), column, mask)


def _of_each_height(p: Phase, tile: LineTile, block: Value, write: Callable[[int], None]) -> None:
    """Write the code of a tile; twice, if the last one is lower."""
    if len(tile.heights) == 1:
        write(tile.height)
        return
    for height, is_here in zip(
        tile.heights, (block < tile.blocks - 1, equal(block, tile.blocks - 1)), strict=True
    ):
        with p.e.when(is_here):
            write(height)


@dataclass(frozen=True)
class _TileWriter:
    """Writes the code of one tile, whose first line is at a place and first column is given."""

    p: Phase
    tile: LineTile
    fold: TileFold
    chain: Chain
    sink: Writer
    place: Sequence[Index]
    column: Value

    def write(self, height: int) -> None:
        """Reduce so many lines, and put the results."""
        vectors = self._vectors()
        totals = self._totals(height, vectors)
        for line in range(height):
            row = RowWriter(self.sink.chain.row_at(self._at(line)), self.sink.buffer)
            for number, (column, mask) in enumerate(vectors):
                total = totals[line * len(vectors) + number]
                row.put(column, self.fold.finish(total), mask)

    def _at(self, line: int) -> list[Index]:
        axis = self.tile.axis
        return [n + line if a == axis else n for a, n in enumerate(self.place)]

    def _vectors(self) -> list[tuple[Value, Value | None]]:
        """Where vectors begin, and which of their lanes count."""
        tile, lanes = self.tile, self.tile.lines.lanes
        columns = [self.column + number * lanes for number in range(tile.side)]
        if tile.layout.columns % (tile.side * lanes) == 0:
            return [(column, None) for column in columns]
        extent = self.p.e.index(tile.layout.columns)
        return [(column, first_lanes(extent - column, lanes)) for column in columns]

    def _totals(self, height: int, vectors: Sequence[tuple[Value, Value | None]]) -> list[Value]:
        """Fold all rows; many of them in blocks, so that small numbers are not lost in a sum."""
        e, lines, rows = self.p.e, self.tile.lines, self.tile.layout.rows
        start = e.constant(lines.dtype, self.fold.initial, lines.lanes)
        initial = [start] * (height * len(vectors))

        def step(row: Value, totals: list[Value]) -> list[Value]:
            return self._stepped(row, totals, height, vectors)

        def block(first: Value, totals: list[Value]) -> list[Value]:
            last = smaller(first + ROWS_AT_ONCE, e.index(rows))
            some = e.fold(last, initial, step, start=first, name="row")
            return [self.fold.combine(a, b) for a, b in zip(totals, some, strict=True)]

        if rows < 2 * ROWS_AT_ONCE:
            return e.fold(rows, initial, step, unroll=2 - rows % 2, name="row")
        return e.fold(rows, initial, block, step=ROWS_AT_ONCE, name="block")

    def _stepped(
        self,
        row: Value,
        totals: list[Value],
        height: int,
        vectors: Sequence[tuple[Value, Value | None]],
    ) -> list[Value]:
        """A row of each line joins the totals; what several of them read is loaded once."""
        reduced = _numbers(self.tile.layout.reduced, row)
        places = [self.chain.row_at([*self._at(line), *reduced]) for line in range(height)]
        each = [(place, *vector) for place in places for vector in vectors]
        pairs = zip(totals, each, strict=True)
        return [self._joined(total, *where) for total, where in pairs]

    def _joined(self, total: Value, place: ChainRow, column: Value, mask: Value | None) -> Value:
        lanes, dtype = self.tile.lines.lanes, self.tile.lines.dtype
        if self.fold.sums_products:
            lhs, rhs = place.last_operands(column, lanes, mask)
            return fma(lhs.splat(lanes), rhs.splat(lanes), total)
        x = self.p.step.required[0]
        made = as_declared(place.run({}, column, lanes, mask)[x], x)
        return self.fold.combine(total, convert(made, dtype).splat(lanes))


def _others(tile: LineTile) -> tuple[int, ...]:
    """The extents of the outer axes that tiles do not extend along."""
    return tuple(n for axis, n in enumerate(tile.layout.outer) if axis != tile.axis)


def _with_axis(tile: LineTile, others: Sequence[Index], first: Index) -> list[Index]:
    return [*others[: tile.axis], first, *others[tile.axis :]]


def _numbers(extents: Sequence[int], place: Index) -> list[Index]:
    """The index along each axis, given the number of an element in row-major order."""
    found: list[Index] = []
    for extent in reversed(extents[1:]):
        place, rest = split(place, extent)
        found.append(rest)
    return [*([place] if extents else []), *reversed(found)]
