"""Rows of a matrix side by side: [column][row of a block]."""

from __future__ import annotations

from afterglow.backends.cpu.kernels.attention.problem import Heads
from afterglow.backends.cpu.kernels.matmul.packing import Packer
from afterglow.backends.cpu.kernels.matmul.problem import Matrix
from afterglow.backends.cpu.llvm.emitter import Emitter, Pointer, Value
from afterglow.backends.cpu.micro.rows import Axes
from afterglow.backends.cpu.micro.tile import RegisterTile


def pack_rows(
    e: Emitter,
    to: Pointer,
    source: Pointer,
    heads: Heads,
    first: Value,
    rows: int,
    columns: int,
    tile: RegisterTile,
) -> None:
    """Transpose the rows from `first` on that a tile has side by side.

    `source` is where row 0 of a head begins. Rows beyond the last are anything.
    """
    none = Axes((), ())
    matrix = Matrix(heads.buffer, none, none, heads.column_stride, heads.row_stride)
    Packer(e, matrix, tile, columns, rows).write(to, source, first)
