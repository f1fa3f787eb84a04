"""Register tiles: a few rows of a product times some vectors of its columns.

Matrix products and convolutions differ in where the numbers of a row come from. The columns are
read from panels: the weights of neighbouring columns one after the other, for each term of the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from afterglow.backends.broadcast import chain_strides
from afterglow.backends.items.around import write_result
from afterglow.backends.opencl.clc import Pointer, Value
from afterglow.backends.opencl.kernels.kernel import Kernel
from afterglow.backends.opencl.limits import Limits
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array
from afterglow.types.dtype import DType

SUMS = {16: 24}
"""Vectors of sums in a tile, by a device's lanes: those with wide vectors have more of them."""
FEW_SUMS = 12
FLOAT_BITS = 32
LEAST_SUMS = 8
"""Fewer sums than these wait for each other."""
VECTORS = (2, 3, 1, 4, 6, 8)
LOAD_NUMBER, LOAD_VECTOR = 0.25, 1.0
"""What it takes to load a number of a row, and a vector of columns, in multiplications."""
PlaceOf = Callable[[Value, Value], list[Value]]
"""From a row and a column of the product to the place of an element of the result."""


@dataclass(frozen=True)
class Tile:
    """So many rows, and so many vectors of `lanes` columns."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes

    @property
    def narrower(self) -> Tile:
        """As high, but of half the vectors, or of half as wide ones."""
        if self.vectors > 1:
            return Tile(self.rows, self.vectors // 2, self.lanes)
        return Tile(self.rows, 1, self.lanes // 2)

    @property
    def time(self) -> float:
        """How long one term of all its sums takes, in multiplications."""
        loads = self.rows * LOAD_NUMBER + self.vectors * LOAD_VECTOR
        return max(self.rows * self.vectors, LEAST_SUMS) + loads

    @staticmethod
    def of(rows: int, columns: int, limits: Limits, dtype: DType) -> Tile:
        """The fastest tile for a product of so many rows and columns."""
        lanes = max(1, limits.lanes * FLOAT_BITS // dtype.bits)
        while lanes > 1 and lanes // 2 >= columns:
            lanes //= 2
        most = SUMS.get(limits.lanes, FEW_SUMS)
        tiles = [_with_vectors(rows, vectors, lanes, most) for vectors in VECTORS]

        def time(tile: Tile) -> float:
            count = -(-rows // tile.rows) * -(-columns // tile.columns)
            return -(-count // limits.units) * tile.time

        return min(tiles, key=time)


def _with_vectors(rows: int, vectors: int, lanes: int, most: int) -> Tile:
    """A tile with at most so many sums, where all tiles have about equally many rows."""
    count = -(-rows // min(most // vectors, rows))
    return Tile(-(-rows // count), vectors, lanes)


def panels(columns: int) -> Callable[[Array], Array]:
    """Packs matrices [batch, terms, columns] into panels, with zeros behind the last column."""

    def pack(data: Array) -> Array:
        batch, terms, width = data.shape
        count = -(-width // columns)
        padded = np.zeros((batch, terms, count * columns), data.dtype)
        padded[:, :, :width] = data
        split = padded.reshape(batch, terms, count, columns)
        return np.ascontiguousarray(split.transpose(0, 2, 1, 3))

    return pack


@dataclass(frozen=True)
class Rows:
    """Numbers of a tile's rows: where they begin, how far apart rows and terms are."""

    source: Pointer
    along_rows: int
    along_terms: int


@dataclass(frozen=True)
class Panel:
    """Columns of a panel: where they begin, and how far apart terms are."""

    source: Pointer
    pitch: int


class Sums:
    """The sums of a tile: in registers while they grow, then in memory of the work-item."""

    def __init__(self, kernel: Kernel, tile: Tile, dtype: DType) -> None:
        self.kernel = kernel
        self.tile = tile
        self.dtype = dtype
        self.held = kernel.code.private(dtype, tile.rows * tile.columns)

    def compute(self, terms: int, rows: Rows, panel: Panel, start: Panel | None) -> None:
        """Add up the products of all terms; `start` is what the sum of each column begins with."""
        code, tile = self.kernel.code, self.tile
        firsts = [
            code.constant(self.dtype, 0, tile.lanes)
            if start is None
            else start.source.load(n * tile.lanes, tile.lanes)
            for n in range(tile.vectors)
        ]
        sums = [[code.variable(first) for first in firsts] for _ in range(tile.rows)]
        with code.fused_loop(terms) as term:
            self._add(sums, term, rows, panel)
        for m, row in enumerate(sums):
            for n, total in enumerate(row):
                self.held.store(total, m * tile.columns + n * tile.lanes)

    def _add(self, sums: Sequence[Sequence[Value]], term: Value, rows: Rows, panel: Panel) -> None:
        """Add the products of one term: a number of each row times the columns."""
        lanes = self.tile.lanes
        first = term * panel.pitch
        columns = [panel.source.load(first + n * lanes, lanes) for n in range(self.tile.vectors)]
        for m, row in enumerate(sums):
            number = rows.source.load(term * rows.along_terms + m * rows.along_rows).splat(lanes)
            for total, column in zip(row, columns, strict=True):
                add_product(self.kernel, total, number, column)

    def store(self, row: Value, held_row: Value, first: Value, columns: int, at: PlaceOf) -> None:
        """Write a row of the product from a row of the tile, which begins at a column."""
        start = self.kernel.code.named(held_row * self.tile.columns)
        if not writes_vectors(self.kernel, self.dtype):
            end = self.kernel.code.smaller(first * -1 + columns, self.tile.columns)
            with self.kernel.code.loop(end) as column:
                self._write(row, start, first, column, 1, at)
            return
        beyond = columns % self.tile.columns
        whole = columns - beyond
        if beyond == 0:
            self._store_pieces(row, start, first, self.tile.columns, at)
            return
        if whole:
            with self.kernel.code.block(f"if ({first.text} < {whole})"):
                self._store_pieces(row, start, first, self.tile.columns, at)
        with self.kernel.code.block("else" if whole else ""):
            self._store_pieces(row, start, first, beyond, at)

    def _store_pieces(
        self, row: Value, start: Value, first: Value, columns: int, at: PlaceOf
    ) -> None:
        for begin, lanes in pieces(columns, self.tile.lanes):
            self._write(row, start, first, self.kernel.code.index(begin), lanes, at)

    def _write(
        self, row: Value, start: Value, first: Value, column: Value, lanes: int, at: PlaceOf
    ) -> None:
        value = self.held.load(start + column, lanes)
        write_result(self.kernel, value, at(row, first + column), lanes)


def writes_vectors(kernel: Kernel, dtype: DType) -> bool:
    """Whether the steps after a product read and write neighbouring columns together."""
    job = kernel.job
    assert job.anchor is not None
    out = job.anchor.outs[0]
    strides = chain_strides(job.after, out.type.shape)
    results = [out, *(each for step in job.after for each in step.outs)]
    if any(b.type.dtype.bits > dtype.bits for b in (*results, *strides)):
        return False
    written = all(b.strides[-1] == 1 for b in results if b not in job.locals)
    return written and all(each[-1:] in ((), (0,), (1,)) for each in strides.values())


def add_product(kernel: Kernel, total: Value, x: Value, y: Value) -> None:
    """Add a product to a variable, rounded once where the device is fast at that."""
    if kernel.limits.inlines:
        kernel.code.perform(f"{total.text} = fma({x.text}, {y.text}, {total.text});")
    else:
        kernel.code.perform(f"{total.text} += {x.text} * {y.text};")


def pieces(count: int, lanes: int) -> Iterator[tuple[int, int]]:
    """Elements in a row as vectors of at most so many lanes: where each begins, and its lanes."""
    begin = 0
    while begin < count:
        while lanes > count - begin:
            lanes //= 2
        yield begin, lanes
        begin += lanes
