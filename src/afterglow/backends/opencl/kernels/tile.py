"""Register tiles: a few rows of a product times some vectors of its columns, in one work-item.

Matrix products and convolutions differ in where the numbers of a row come from. The columns are
read from panels: the weights of neighbouring columns one after the other, for each term of the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from afterglow.backends.broadcast import chain_strides
from afterglow.backends.opencl.clc import Pointer, Value
from afterglow.backends.opencl.kernels.around import write_result
from afterglow.backends.opencl.kernels.kernel import Kernel
from afterglow.types import Array
from afterglow.types.dtype import DType

REGISTERS = {16: 24}
"""Vectors of sums that a tile holds, by their lanes: devices with wide ones have more of them."""
FEW_REGISTERS = 8
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

    @staticmethod
    def of(rows: int, columns: int, lanes: int) -> Tile:
        """The tile for a product of so many rows and columns, on vectors of at most `lanes`."""
        while lanes > 1 and lanes // 2 >= columns:
            lanes //= 2
        vectors = 2 if columns > lanes else 1
        most = max(1, min(REGISTERS.get(lanes, FEW_REGISTERS) // vectors, rows))
        count = -(-rows // most)
        return Tile(-(-rows // count), vectors, lanes)


def panels(columns: int) -> Callable[[Array], Array]:
    """Packs matrices [batch, terms, columns] into panels, with zeros behind the last column."""

    def pack(data: Array) -> Array:
        batch, terms, width = data.shape
        padded = np.zeros((batch, terms, -(-width // columns) * columns), data.dtype)
        padded[:, :, :width] = data
        split = padded.reshape(batch, terms, -1, columns)
        return np.ascontiguousarray(split.transpose(0, 2, 1, 3))

    return pack


class Sums:
    """The sums of a tile, in registers."""

    def __init__(self, kernel: Kernel, tile: Tile, dtype: DType) -> None:
        self.kernel = kernel
        self.tile = tile
        zero = kernel.code.constant(dtype, 0, tile.lanes)
        self.sums = [
            [kernel.code.variable(zero) for _ in range(tile.vectors)] for _ in range(tile.rows)
        ]

    def add(self, panel: Pointer, place: Value, row_values: Sequence[Value]) -> None:
        """Add the products of one term: a number of each row times the columns."""
        code, lanes = self.kernel.code, self.tile.lanes
        columns = [panel.load(place + n * lanes, lanes) for n in range(self.tile.vectors)]
        for row, number in zip(self.sums, row_values, strict=True):
            for total, column in zip(row, columns, strict=True):
                code.perform(f"{total.text} += {number.text} * {column.text};")

    def store(self, first_row: Value, rows: int, first: Value, columns: int, at: PlaceOf) -> None:
        """Write the tile that begins at a row and a column; none beyond those there are."""
        code = self.kernel.code
        whole = columns % self.tile.columns == 0 and self._may_write_vectors()
        for m, row in enumerate(self.sums):
            place = first_row + m
            if rows % self.tile.rows == 0:
                self._store_row(row, place, first, columns, at, whole=whole)
                continue
            with code.block(f"if ({place.text} < {rows})"):
                self._store_row(row, place, first, columns, at, whole=whole)

    def _store_row(
        self,
        row: Sequence[Value],
        place: Value,
        first: Value,
        columns: int,
        at: PlaceOf,
        *,
        whole: bool,
    ) -> None:
        lanes = self.tile.lanes
        for n, total in enumerate(row):
            start = first + n * lanes
            if whole or lanes == 1:
                write_result(self.kernel, total, at(place, start), lanes)
                continue
            for lane in range(lanes):
                one = Value(self.kernel.code, total.dtype, 1, f"{total.text}.s{lane:x}")
                column = start + lane
                with self.kernel.code.block(f"if ({column.text} < {columns})"):
                    write_result(self.kernel, one, at(place, column))

    def _may_write_vectors(self) -> bool:
        """Whether the steps after the product read and write neighbouring columns together."""
        job = self.kernel.job
        assert job.anchor is not None
        out = job.anchor.outs[0]
        strides = chain_strides(job.after, out.type.shape)
        results = [out, *(each for step in job.after for each in step.outs)]
        written = all(b.strides[-1] == 1 for b in results if b not in job.locals)
        return written and all(each[-1] in (0, 1) for each in strides.values())
