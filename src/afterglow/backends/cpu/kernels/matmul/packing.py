"""The right-hand matrix in panels: [columns / width][depth][width].

Constants are put into panels when a model is compiled, the last filled with zeros. Others are as
the kernel runs, a panel at a time; there the last is filled with whatever is at hand.
"""

from __future__ import annotations

from afterglow.backends.cpu.kernels.matmul.pieces import pieces_of
from afterglow.backends.cpu.kernels.matmul.problem import Matrix
from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    Index,
    Pointer,
    Value,
    convert,
    equal,
    first_lanes,
    load_masked,
    smaller,
    transpose,
)
from afterglow.backends.cpu.micro.packing import Pack, Packing, fill_panels
from afterglow.backends.cpu.micro.storage_format import has_plain_order, to_storage
from afterglow.backends.cpu.micro.tile import RegisterTile
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array
from afterglow.types.dtype import DType
from afterglow.types.extent import is_ranged, largest

SIDE = 8
"""Side of the squares that are transposed in registers, at most."""


def pack_panels(tile: RegisterTile, dtype: DType, transposed: bool) -> Pack:
    """How to put [..., depth, columns] (or its transpose) into panels of an element type."""
    width = tile.columns

    def pack(x: Array) -> Array | Packing:
        by_column = x if transposed else x.swapaxes(-1, -2)
        *batch, columns, depth = by_column.shape
        shape = (*batch, -(-columns // width), depth, width)
        panels = Packing(
            shape,
            dtype.numpy,
            lambda made: fill_panels(made, by_column, axis=len(batch)),
            rows=width if transposed and not batch else 0,
        )
        in_order = has_plain_order(dtype)
        return panels if in_order else to_storage(panels.array(), tile.lanes, dtype)

    return pack


@dataclass(frozen=True)
class Packer:
    """Writes the code that puts one panel of a matrix [depth, columns] into other memory."""

    e: Emitter
    matrix: Matrix
    tile: RegisterTile
    depth: int
    columns: int

    def write(self, to: Pointer, source: Pointer, column: Index) -> None:
        """Pack the panel that begins at a column; `source` is where the matrix begins."""
        side = min(SIDE, self.tile.lanes)
        if self.matrix.column_stride == 1:
            self._copy_lines(to, source, column)
        elif self.matrix.row_stride == 1 and side > 1 and largest(self.depth) >= side:
            self._transpose(to, source, column, side)
        else:
            self._copy_elements(to, source, column, 0)

    def _copy_lines(self, to: Pointer, source: Pointer, column: Index) -> None:
        first, rest = source + column, self.columns % self.tile.columns
        if rest == 0:
            self._copy_part(to, first, self.tile.columns)
            return
        last = equal(self.e.index(column), self.columns - rest)
        for condition, columns in ((~last, self.tile.columns), (last, rest)):
            if columns <= largest(self.columns):
                with self.e.when(condition):
                    self._copy_part(to, first, columns)

    def _copy_part(self, to: Pointer, first: Pointer, columns: int) -> None:
        """Copy the first columns of all lines of a panel."""
        with self.e.loop(self.depth, name="k") as k:
            line, made = first + k * self.matrix.row_stride, to + k * self.tile.columns
            if is_ranged(columns):
                self._copy_ranged(made, line, columns)
            else:
                self._copy_pieces(made, line, columns)

    def _copy_pieces(self, made: Pointer, line: Pointer, columns: int) -> None:
        for piece in pieces_of(columns, self.tile.lanes, masked=self.e.target.avx512):
            place, mask = line + piece.start, piece.mask(self.e)
            loaded = place.load(0, piece.lanes) if mask is None else load_masked(place, mask)
            made.store(convert(loaded, made.dtype), piece.start)

    def _copy_ranged(self, made: Pointer, line: Pointer, columns: int) -> None:
        lanes = self.tile.lanes
        if self.e.target.avx512:
            for start in range(0, self.tile.columns, lanes):
                mask = first_lanes(self.e.index(columns - start), lanes)
                made.store(convert(load_masked(line + start, mask), made.dtype), start)
            return
        whole = columns - columns % lanes
        with self.e.loop(whole, step=lanes, name="c") as c:
            made.store(convert(line.load(c, lanes), made.dtype), c)
        with self.e.loop(columns, start=whole, name="c") as c:
            made.store(convert(line.load(c), made.dtype), c)

    def _transpose(self, to: Pointer, source: Pointer, column: Index, side: int) -> None:
        """Squares as far as they go along the depth, then single elements."""
        whole = self.depth - self.depth % side
        with self.e.loop(self.tile.columns, step=side, name="c") as c:
            starts = [self._column(source, column + c + i) for i in range(side)]
            with self.e.loop(whole, step=side, name="k") as k:
                square = transpose([convert((s + k).load(0, side), to.dtype) for s in starts])
                made = to + (k * self.tile.columns + c)
                for i, line in enumerate(square):
                    made.store(line, i * self.tile.columns)
        self._copy_elements(to, source, column, whole)

    def _copy_elements(self, to: Pointer, source: Pointer, column: Index, start: int) -> None:
        if start == self.depth:
            return
        with self.e.loop(self.tile.columns, name="c") as c:
            first = self._column(source, column + c)
            with self.e.loop(self.depth, start=start, name="k") as k:
                element = (first + k * self.matrix.row_stride).load()
                to.store(convert(element, to.dtype), k * self.tile.columns + c)

    def _column(self, source: Pointer, column: Value) -> Pointer:
        """Where a column begins; past the last one, that one."""
        if self.columns % self.tile.columns != 0:
            column = smaller(column, self.columns - 1)
        return source + column * self.matrix.column_stride
