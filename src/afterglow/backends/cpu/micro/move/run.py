"""Moves whose operand is read along the axis along which the result is written."""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    Index,
    Pointer,
    Value,
    first_lanes,
    reverse,
)
from afterglow.backends.cpu.micro.lanes import fitting_lanes
from afterglow.backends.cpu.micro.move.axes import MoveCut, StridedMove
from afterglow.backends.cpu.micro.move.blocks import Blocks, write_powers
from afterglow.backends.cpu.micro.move.place import ResultPlace, ResultRow, load_first
from afterglow.backends.cpu.micro.rows import Row

BLOCK_BYTES = 1 << 15
"""Bytes of a row that one piece has at most."""
UNROLLED = 4
"""Vectors in one turn of the loop."""


class RowMove:
    """Rows along the last axis, whatever its strides."""

    def __init__(self, lanes: int, move: StridedMove, itemsize: int) -> None:
        extent, self.stride = move.extents[-1], move.source[-1]
        # Machines gather elements of 32 bits and more, if any; others are moved one by one.
        is_plain = self.stride in (-1, 0, 1) and move.to[-1] == 1
        self.lanes = fitting_lanes(lanes, extent) if is_plain or itemsize >= 4 else 1
        turn = self.lanes * UNROLLED
        self.blocks = Blocks(extent, turn, max(1, BLOCK_BYTES // itemsize // turn) * turn)
        self.cut = MoveCut(self.blocks.count, self.blocks.most)

    def write(self, e: Emitter, out: ResultPlace, piece: Index, to: Index, source: Pointer) -> None:
        """Move a block of one row: whole turns, then vectors, then what is left."""
        line, row, lanes = out.at(to), Row(source, self.stride), self.lanes
        repeated = row.load(0, lanes).splat(lanes) if self.stride == 0 else None

        def load(column: Index, count: int) -> Value:
            return _load(row, column, count, lanes) if repeated is None else repeated

        def turn(column: Value) -> None:
            vectors = [load(column + at * lanes, lanes) for at in range(UNROLLED)]
            for at, vector in enumerate(vectors):
                line.put(column + at * lanes, vector, lanes)

        def rest(start: Index, left: Index) -> None:
            if isinstance(left, Value):
                write_columns(e, line, row, start, left, lanes)
                return
            for skipped in range(0, left, lanes):
                count = min(lanes, left - skipped)
                line.put(start + skipped, load(start + skipped, count), count)

        self.blocks.write(e, piece, turn, rest)


def write_columns(
    e: Emitter, line: ResultRow, row: Row, start: Index, count: Value, lanes: int
) -> None:
    """Move neighbouring columns, as many as the code finds: whole vectors, then what is left."""
    left = count & (lanes - 1)
    whole = count - left + start
    with e.loop(whole, start=start, step=lanes) as column:
        line.put(column, _load(row, column, lanes, lanes), lanes)
    if lanes == 1:
        return
    if not line.takes_masks:
        write_powers(e, whole, left, lanes, lambda at, n: line.put(at, _load(row, at, n, n), n))
        return
    with e.when(left > 0):
        mask = first_lanes(left, lanes)
        line.put_masked(whole, row.load(whole, lanes, mask).splat(lanes), mask)


def _load(row: Row, column: Index, count: int, lanes: int) -> Value:
    if row.stride == -1 and count == lanes:
        return reverse((row.pointer + column * -1).load(1 - lanes, lanes))
    return load_first(row, column, count, lanes)
