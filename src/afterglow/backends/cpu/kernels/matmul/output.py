"""The output of a tile: its sums go through the steps of the epilogue to memory."""

from __future__ import annotations

from afterglow.backends.cpu.kernels.matmul.pieces import pieces_of
from afterglow.backends.cpu.llvm.emitter import Index, Pointer, Value, equal, first_lanes
from afterglow.backends.cpu.micro.fusion import SinkRow
from afterglow.backends.cpu.micro.kernel import KernelRequest, Phase
from afterglow.backends.cpu.micro.rows import Rows
from afterglow.backends.cpu.micro.tile import RegisterTile
from afterglow.backends.cpu.target import Target
from afterglow.instr import Buffer
from afterglow.ops.activation import Relu
from afterglow.ops.elementwise import Add, Max, Min, Mul, Sub
from afterglow.types.extent import is_ranged, largest

LIGHT = (Add, Sub, Mul, Max, Min, Relu)
"""Steps of an instruction or two, which may as well be written once for each vector of a tile."""
MOST_LIGHT = 4
"""Light steps that are still little code."""


def goes_through_memory(r: KernelRequest, columns: int, tile: RegisterTile) -> bool:
    """Whether tiles of a product are put from memory, rather than from the accumulators."""
    after = r.job.after
    light = len(after) <= MOST_LIGHT and all(isinstance(step.op, LIGHT) for step in after)
    if not light or r.step.outs[0].type.dtype.is_narrow_float:
        return True
    return columns % tile.columns != 0 and not r.target.avx512


def _is_far(buffer: Buffer, rows: Rows, target: Target) -> bool:
    """Whether an operand of the epilogue comes from beyond the second cache, a tile at a time."""
    dense = rows.column_stride == 1 and not rows.is_same_in_all
    return dense and largest(buffer.type.nbytes) > target.caches.l2 // 2 > 0


class GemmOutput:
    """The result of a product, which is written tile by tile, in rows.

    Light steps work on the accumulators. For others, and where the last panel is not whole, a tile
    goes through memory: a loop over its rows is less code than all its vectors.
    """

    def __init__(
        self, p: Phase, columns: int, tile: RegisterTile, *, kept: bool, scratch: str = "tile"
    ) -> None:
        self.e, self.sink = p.e, p.sink()
        self.columns, self.tile = columns, tile
        self.whole = columns % tile.columns == 0
        self.masked = p.target.avx512
        self.far = [rows for b, rows in self.sink.chain.read.items() if _is_far(b, rows, p.target)]
        self.buffer: Pointer | None = None
        if kept:
            self.buffer = p.scratch(scratch)

    def fetch(self, row: Index, column: Index, height: int) -> None:
        """Fetch what the steps of the epilogue read of a tile that is about to be computed."""
        for rows in self.far:
            for r in range(height):
                line = rows.row(row + r).pointer
                for v in range(self.tile.vectors):
                    line.prefetch(column + v * self.tile.lanes)

    def put(self, row: Index, column: Index, sums: list[list[Value]]) -> None:
        """Put a tile whose first element is at a row and column of the result."""
        self.begin(row, column, sums)
        self.finish(row, column, len(sums))

    def begin(self, row: Index, column: Index, sums: list[list[Value]]) -> None:
        """Put a tile, or lay it down where `finish` finds it."""
        if self.buffer is None:
            self._put_directly(row, column, sums)
            return
        for r, vectors in enumerate(sums):
            for v, vector in enumerate(vectors):
                self.buffer.store(vector, r * self.tile.columns + v * self.tile.lanes)

    def clear(self, rows: Value) -> None:
        """Lay down rows of zeros, to which `add` adds."""
        assert self.buffer is not None
        self.e.zero(self.buffer, rows * self.tile.columns)

    def add(self, sums: list[list[Value]]) -> None:
        """Add to the tile that is laid down."""
        assert self.buffer is not None
        for r, vectors in enumerate(sums):
            for v, vector in enumerate(vectors):
                place = self.buffer + (r * self.tile.columns + v * self.tile.lanes)
                place.store(place.load(0, self.tile.lanes) + vector)

    def finish(self, row: Index, column: Index, rows: Index) -> None:
        """Put the rows of a tile that `begin` laid down; a tile of any height."""
        if self.buffer is None:
            return
        if self.whole:
            self._put_stored(self.buffer, row, column, rows, self.tile.columns)
            return
        rest = self.columns % self.tile.columns
        last = equal(self.e.index(column), self.columns - rest)
        for condition, columns in ((~last, self.tile.columns), (last, rest)):
            if columns <= largest(self.columns):
                with self.e.when(condition):
                    self._put_stored(self.buffer, row, column, rows, columns)

    def _put_directly(self, row: Index, column: Index, sums: list[list[Value]]) -> None:
        lanes = self.tile.lanes
        left = self.e.index(self.columns) - column
        masks = [
            None if self.whole else first_lanes(left - v * lanes, lanes)
            for v in range(self.tile.vectors)
        ]
        for r, vectors in enumerate(sums):
            out = self.sink.row(row + r)
            for v, vector in enumerate(vectors):
                out.put(column + v * lanes, vector, masks[v])

    def _put_stored(
        self, buffer: Pointer, row: Index, column: Index, rows: Index, columns: int
    ) -> None:
        """Put the first columns of a tile that lies in memory, by vectors and parts of them."""
        lanes = self.tile.lanes
        with self.e.loop(rows, name="row") as r:
            out, line = self.sink.row(row + r), buffer + r * self.tile.columns
            if largest(columns) >= lanes:
                with self.e.loop(columns - lanes + 1, step=lanes, name="column") as place:
                    out.put(place + column, line.load(place, lanes))
            self._put_rest(out, line, column, columns)

    def _put_rest(self, out: SinkRow, line: Pointer, column: Index, columns: int) -> None:
        """Put what whole vectors leave of some columns."""
        lanes = self.tile.lanes
        if not is_ranged(columns):
            for piece in pieces_of(columns, lanes, masked=self.masked):
                if piece.count < lanes:
                    loaded = line.load(piece.start, piece.lanes)
                    out.put(column + piece.start, loaded, piece.mask(self.e))
            return
        whole = self.e.index(columns - columns % lanes)
        if self.masked:
            mask = first_lanes(self.e.index(columns) - whole, lanes)
            out.put(whole + column, line.load(whole, lanes), mask)
            return
        with self.e.loop(columns, start=whole, name="column") as place:
            out.put(place + column, line.load(place))
