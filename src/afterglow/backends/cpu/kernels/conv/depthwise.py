"""Depthwise convolutions: every result channel sees one channel of x.

A tile is a few rows and columns of results, a vector of channels at a time: an element that was
loaded serves all the results of the tile whose windows see it. Rows beyond the edge of x are
skipped when the code runs, columns when it is written.
"""

from __future__ import annotations

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.conv.depthwise_plan import Depthwise
from afterglow.backends.cpu.kernels.conv.depthwise_tile import (
    DepthwiseTile,
    Operands,
    RowTile,
    Vector,
)
from afterglow.backends.cpu.llvm.emitter import Index, Value, convert, smaller
from afterglow.backends.cpu.micro.fusion import SinkRow
from afterglow.backends.cpu.micro.kernel import Kernel, KernelRequest, Phase
from afterglow.backends.cpu.micro.rows import split
from afterglow.backends.cpu.micro.sliding import (
    WindowField,
    WindowRun,
    cut_columns,
    each_row,
    each_tile,
    place_of_row,
)
from afterglow.instr import OpInstr
from afterglow.types.extent import at_least


def is_depthwise(step: OpInstr) -> bool:
    """Whether a convolution has one channel of x for each of its results."""
    weight = step.required[1]
    return weight.type.shape[-1] == 1


def depthwise_algorithm(r: KernelRequest, cost: float) -> Algorithm:
    """The algorithm for such a convolution."""
    conv = Depthwise(r)
    tile = (conv.tile_rows, conv.tile_columns)
    return Algorithm("depthwise", cost, _write_depthwise, conv.needs, {"tile": tile})


def _write_depthwise(k: Kernel) -> None:
    """Write the kernel of such a convolution."""
    conv = Depthwise(k)
    if not conv.has_packed_weight:
        _write_packing(k, conv)
    with k.phase(conv.row_tiles * conv.channels.blocks, conv.work) as p:
        each_row(p, conv.row_tiles, conv.channels, _Writer(conv, p).write_rows)


def _write_packing(k: Kernel, conv: Depthwise) -> None:
    """A phase before the others: put a weight that is known only then into order."""
    strides = conv.weight.strides
    shape = conv.weight.type.shape
    with k.phase(conv.taps, float(conv.taps * conv.results), "pack") as p:
        e, weight, packed = p.e, p.pointer(conv.weight), conv.packed_weight(p)
        with p.units() as tap:
            place = weight
            rest: Index = tap
            for extent, stride in zip(shape[-2:0:-1], strides[-2:0:-1], strict=True):
                rest, at = split(rest, extent)
                place = place + at * stride
            with e.loop(conv.results) as channel:
                value = convert((place + channel * strides[0]).load(), conv.dtype)
                packed.store(value, tap * conv.padded + channel)
            with e.loop(conv.padded, start=conv.results) as channel:
                packed.store(e.constant(conv.dtype, 0), tap * conv.padded + channel)


class _Writer:
    """Writes the phase that computes the results."""

    def __init__(self, conv: Depthwise, p: Phase) -> None:
        self.conv, self.e = conv, p.e
        self.operands, self.sink = Operands(conv, p), p.sink()
        self.runs = cut_columns(conv.field.columns, conv.tile_columns)

    def write_rows(self, number: Index, bounds: tuple[Index, Index]) -> None:
        """Write all tiles of some rows."""
        tile = self._row_tile(number)

        def write_tile(run: WindowRun, column: Index) -> None:
            rows = self._sink_rows(tile, run, column)

            def write_vector(channel: Value, lanes: int, mask: Value | None) -> None:
                vector = Vector(channel, lanes, mask)
                made = DepthwiseTile(self.e, self.conv, self.operands, tile, run, column, vector)
                self._put(tile, rows, made.sums(), vector)

            self.conv.channels.each(self.e, bounds, write_vector)

        each_tile(self.e, self.runs, write_tile)

    def _row_tile(self, number: Index) -> RowTile:
        conv, rows, e = self.conv, self.conv.rows, self.e
        tiles = -(-rows.count // conv.tile_rows)
        before, tile = split(number, tiles)
        outer = WindowField(conv.field.batch, 0, (*conv.field.axes[:-2], rows), 0, 0)
        image, windows = place_of_row(outer, before)
        first = tile * conv.tile_rows
        ranges = [
            axis.taps(e, window) for axis, window in zip(conv.field.axes, windows, strict=False)
        ]
        if not conv.unrolls_rows:
            ranges.append(rows.taps(e, first))
        start = conv.field.start(self.operands.x, image, [*windows, first])
        return RowTile(
            start,
            ranges,
            first,
            before * rows.count + first,
            [self._is_inside(first, r) for r in range(self._rows_seen)],
            [self._is_there(first, i) for i in range(conv.tile_rows)],
        )

    @property
    def _rows_seen(self) -> int:
        rows = self.conv.rows
        return (self.conv.tile_rows - 1) * rows.stride + rows.reach

    def _is_inside(self, first: Index, row: int) -> Value | None:
        """Whether a row that a tile sees lies in x; None if it always does."""
        rows, tile_rows = self.conv.rows, self.conv.tile_rows
        last = -(-rows.count // tile_rows) * tile_rows - tile_rows
        behind = last * rows.stride - rows.begin + row
        if rows.begin <= row and at_least(rows.extent, behind + 1):
            return None
        place = self.e.index(rows.first(first)) + row
        return (place >= 0) & (place < rows.extent)

    def _is_there(self, first: Index, row: int) -> Value | None:
        """Whether there is a result row; None if it always is."""
        if self.conv.rows.count % self.conv.tile_rows == 0 or row == 0:
            return None
        return self.e.index(first) + row < self.conv.rows.count

    def _sink_rows(self, tile: RowTile, run: WindowRun, column: Index) -> list[list[SinkRow]]:
        width, last = self.conv.field.columns.count, self.conv.rows.count - 1
        found = []
        for i, there in enumerate(tile.is_there):
            # the row that is not there has the address of one that is
            row = tile.number + i
            if there is not None:
                row = tile.number + smaller(self.e.index(last) - tile.first, i)
            found.append([self.sink.row(row * width + column + j) for j in range(run.width)])
        return found

    def _put(
        self,
        tile: RowTile,
        rows: list[list[SinkRow]],
        sums: list[list[Value]],
        vector: Vector,
    ) -> None:
        for there, outs, values in zip(tile.is_there, rows, sums, strict=True):
            if there is None:
                _put_row(outs, values, vector)
                continue
            with self.e.when(there):
                _put_row(outs, values, vector)


def _put_row(outs: list[SinkRow], values: list[Value], vector: Vector) -> None:
    for out, value in zip(outs, values, strict=True):
        out.put(vector.channel, value, vector.mask)
