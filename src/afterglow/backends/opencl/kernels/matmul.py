"""Matrix products."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from afterglow.backends.broadcast import merge_alike, strides_within
from afterglow.backends.items import matmul
from afterglow.backends.items.chain import places_of
from afterglow.backends.items.language import offset
from afterglow.backends.items.types import computed, is_number
from afterglow.backends.job import Job
from afterglow.backends.opencl.clc import Pointer, Value
from afterglow.backends.opencl.kernels.copying import copy_line, pitch_of
from afterglow.backends.opencl.kernels.group_product import (
    LEAST_ROWS,
    group_tile,
    write_group_product,
)
from afterglow.backends.opencl.kernels.kernel import Kernel, KernelSource
from afterglow.backends.opencl.kernels.product import Extents, Work, write_product
from afterglow.backends.opencl.kernels.table import ANCHORS
from afterglow.backends.opencl.kernels.tile import Panel, Rows, Tile, panels
from afterglow.backends.opencl.limits import Limits
from afterglow.instr import Buffer, OpInstr, Region
from afterglow.ops.linear import MatMul
from afterglow.types import Array
from afterglow.types.dtype import f32, f64

TILED = (f32, f64)


def _accepts(step: OpInstr, limits: Limits) -> bool:
    return is_number(step.outs[0].type.dtype)


@ANCHORS.declare(MatMul, accepts=_accepts)
def write_matmul(job: Job, limits: Limits) -> KernelSource:
    """In tiles of registers where panels of columns can be had, else one result an item."""
    kernel = Kernel(job, limits)
    product = _Product(kernel)
    work = product.work()
    if work is None:
        return _write_plain(job, limits)
    operands = _Operands(product, work.tile)
    if limits.is_processor:
        write_product(kernel, work, operands, product.dtype)
    else:
        write_group_product(kernel, work, operands, product.dtype)
    return kernel.finish()


class _Product:
    """What a product multiplies, and how that lies in memory."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        op = kernel.step.op
        assert isinstance(op, MatMul)
        self.op = op
        self.lhs, self.rhs = kernel.step.operand(0), kernel.step.operand(1)
        out = kernel.step.outs[0]
        self.dtype, self.shape = computed(out.type.dtype), out.type.shape
        self.packed = self.rhs.root.region is Region.CONSTANT and _is_one_matrix(self.rhs)
        """Whether the columns are packed when the program is compiled."""
        own = self.lhs.strides[-2:]
        self.along_rows, self.along_terms = own[::-1] if op.transpose_lhs else own
        rhs = self.rhs.strides[-2:]
        self.pitch, self.along_columns = rhs[::-1] if op.transpose_rhs else rhs
        self.terms = self.lhs.type.shape[-2 if op.transpose_lhs else -1]
        self.merged = self.packed and self._merges()
        """Whether the rows of all matrices are rows of one."""

    def _merges(self) -> bool:
        batch = strides_within(self.lhs, self.shape)[:-2]
        extents, strides = merge_alike(self.shape[:-1], [(*batch, self.along_rows)])
        return len(extents) == 1 and strides[0][0] in (0, self.along_rows)

    @property
    def extents(self) -> Extents:
        """Of one product, or of all as one."""
        *batch, rows, columns = self.shape
        count = math.prod(batch)
        if self.merged:
            return Extents(rows * count, columns, self.terms)
        return Extents(rows, columns, self.terms, count)

    def work(self) -> Work | None:
        """How it is divided; None if it has no tiles."""
        operands = (self.lhs, self.rhs)
        if self.dtype not in TILED or any(
            computed(b.type.dtype) is not self.dtype for b in operands
        ):
            return None
        limits, extents = self.kernel.limits, self.extents
        if not limits.is_processor:
            return Work(extents, group_tile(limits)) if extents.rows >= LEAST_ROWS else None
        tile = self._low_enough(Tile.of(extents.rows, extents.columns, limits, self.dtype))
        while not self.packed and not self.fits(tile):
            if tile.columns == 1:
                return None
            tile = tile.narrower
        return Work.by_panels(extents, tile, limits)

    def _low_enough(self, tile: Tile) -> Tile:
        """A tile of which the rows, if they are copied, leave half of the memory to a panel."""
        most = self.kernel.limits.local_bytes // 2
        while self.copies_rows(tile) and self.row_bytes(tile) > most:
            tile = replace(tile, rows=-(-tile.rows // 2))
        return tile

    def copies_rows(self, tile: Tile) -> bool:
        """Whether rows are copied: single floats of 16 bits take longer to convert than vectors."""
        return self.lhs.type.dtype is not self.dtype and tile.rows > 1

    def row_bytes(self, tile: Tile) -> int:
        """Bytes of a copy of rows."""
        return tile.rows * self.row_pitch * self.dtype.itemsize

    @property
    def row_pitch(self) -> int:
        """Elements from one copied row to the next."""
        return pitch_of(self.terms)

    def is_direct(self, tile: Tile) -> bool:
        """Whether columns are read from where they are: few rows use them, or all are in place."""
        in_place = self.along_columns == 1 and self.shape[-1] % tile.columns == 0
        return in_place and self.extents.rows <= tile.rows

    def fits(self, tile: Tile) -> bool:
        """Whether a panel is in place, or there is room for a copy."""
        copied = self.terms * tile.columns * self.dtype.itemsize
        room = self.kernel.limits.local_bytes
        if self.copies_rows(tile):
            room -= self.row_bytes(tile)
        return self.is_direct(tile) or copied <= room


def _is_one_matrix(buffer: Buffer) -> bool:
    return math.prod(buffer.type.shape[:-2]) == 1


class _Operands:
    """The numbers of a product as its loops want them."""

    def __init__(self, product: _Product, tile: Tile) -> None:
        self.product = product
        self.tile = tile
        self.kernel = product.kernel
        self.batch = product.shape[:-2]
        item = None if product.merged else self.kernel.code.work_item(2)
        self.where = [] if item is None else places_of(self.kernel, item, self.batch)
        self.near = self._room_for_rows() if self.kernel.limits.is_processor else None

    def _room_for_rows(self) -> Pointer | None:
        """Memory for a copy of rows, if one is made."""
        product, tile = self.product, self.tile
        if not product.copies_rows(tile):
            return None
        return self.kernel.code.shared(product.dtype, tile.rows * product.row_pitch)

    def rows(self, first: Value) -> Rows:
        """Rows of lhs, from where they are, or copied."""
        product = self.product
        start = first * product.along_rows + self._base(product.lhs)
        source = self.kernel.numbers(product.lhs).shifted(start)
        if self.near is None:
            return Rows(source, product.along_rows, product.along_terms)
        pitch, lanes = product.row_pitch, self.tile.lanes
        with self.kernel.code.loop(self.tile.rows) as row:
            begin, to = row * product.along_rows, row * pitch
            copy_line(source, begin, product.along_terms, self.near, to, product.terms, lanes)
        return Rows(self.near, pitch, 1)

    def panel(self, panel: Value) -> Panel:
        """Columns of rhs: packed, in place, or copied."""
        product, code, width = self.product, self.kernel.code, self.tile.columns
        if product.packed:
            return Panel(self._packed().shifted(panel * (product.terms * width)), width)
        first = code.named(panel * width)
        source = self.kernel.numbers(product.rhs).shifted(self._base(product.rhs))
        if product.is_direct(self.tile):
            return Panel(source.shifted(first), product.pitch)
        return Panel(self._copied(source, first), width)

    def number(self, row: Value, term: Value) -> Value:
        """A number of lhs."""
        product = self.product
        place = row * product.along_rows + term * product.along_terms
        return self.kernel.numbers(product.lhs).load(place + self._base(product.lhs))

    def weight(self, panel: Value, column: Value, term: Value) -> Value:
        """A number of rhs, packed or in place."""
        product, width = self.product, self.tile.columns
        if product.packed:
            return self._packed().load((panel * product.terms + term) * width + column)
        own = self.kernel.code.smaller(panel * width + column, product.shape[-1] - 1)
        place = own * product.along_columns + term * product.pitch
        return self.kernel.numbers(product.rhs).load(place + self._base(product.rhs))

    def start(self, panel: Value) -> Panel | None:
        """Zeros."""
        return None

    def place(self, row: Value, column: Value) -> list[Value]:
        """In the batch of this work-item, or of the row."""
        if not self.product.merged:
            return [*self.where, row, column]
        if math.prod(self.batch) == 1:
            return [*(self.kernel.code.index(0) for _ in self.batch), row, column]
        return [*places_of(self.kernel, row, self.product.shape[:-1]), column]

    def _packed(self) -> Pointer:
        """All panels of a constant."""
        transposed, width = self.product.op.transpose_rhs, self.tile.columns
        order = f"panels of {width}, {'transposed' if transposed else 'straight'}"
        pack = partial(_pack, width, transposed)
        return self.kernel.packed(self.product.rhs, order, pack).numbers

    def _base(self, operand: Buffer) -> Value:
        """Where the matrix of this work-item begins."""
        strides = strides_within(operand, self.product.shape)[:-2]
        return offset(self.kernel.code, self.where, strides[len(strides) - len(self.where) :])

    def _copied(self, source: Pointer, first: Value) -> Pointer:
        """A copy of a panel; the last column stands in for those that there are not."""
        product, code, width = self.product, self.kernel.code, self.tile.columns
        copy = code.shared(product.dtype, product.terms * width)
        columns, lanes = product.shape[-1], self.tile.lanes
        if product.along_columns == 1 and columns % width == 0:
            with code.loop(product.terms) as term:
                start = first + term * product.pitch
                copy_line(source, start, 1, copy, term * width, width, lanes)
            return copy
        with code.loop(width) as column:
            place = code.smaller(first + column, columns - 1) * product.along_columns
            line = source.shifted(place)
            with code.loop(product.terms) as term:
                copy.store(line.load(term * product.pitch), term * width + column)
        return copy


def _pack(columns: int, transposed: bool, data: Array) -> Array:
    matrix = data.reshape(data.shape[-2:])
    return panels(columns)(np.asarray(matrix.T if transposed else matrix)[None])


def _write_plain(job: Job, limits: Limits) -> KernelSource:
    """Each result by an item of its own."""
    kernel = Kernel(job, limits)
    matmul.write_matmul(kernel)
    return kernel.finish()
