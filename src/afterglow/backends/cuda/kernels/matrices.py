"""The operands of matrix products, as blocks of their elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from afterglow.backends.broadcast import merge_alike, strides_within
from afterglow.backends.cuda.kernels.kernel import Kernel
from afterglow.backends.cuda.kernels.products import Block
from afterglow.backends.cuda.kernels.strips import RowWork
from afterglow.backends.cuda.kernels.tile import LEAST_TERMS, Extents, Tile
from afterglow.backends.cuda.kernels.tile_blocks import load, multiply_add
from afterglow.backends.cuda.kernels.tile_cost import VECTOR, Work
from afterglow.backends.cuda.kernels.tile_plans import moved_bytes
from afterglow.backends.cuda.kernels.tile_results import Places, places_by_row, read_by_element
from afterglow.backends.cuda.tl import Pointer, Value
from afterglow.backends.cuda.tl.code import offset
from afterglow.backends.items.chain import places_of
from afterglow.backends.job import Job
from afterglow.backends.pointwise.vocabulary import convert
from afterglow.instr import Buffer, OpInstr, Region
from afterglow.ops.linear import MatMul
from afterglow.ops.quantized import QuantizedMatMul
from afterglow.ops.stored import StoredMatMul
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array
from afterglow.types.dtype import DType, f32, u8

LARGE = 16 * 2**20
"""Bytes of a right matrix from which on neighbouring programs share its columns."""


@dataclass(frozen=True)
class Layout:
    """What a step multiplies, and how that lies in memory."""

    step: OpInstr

    @cached_property
    def lhs(self) -> Buffer:
        """The left matrices."""
        return self.step.operand(0)

    @cached_property
    def rhs(self) -> Buffer:
        """The right matrices."""
        return self.step.operand(1)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return self.step.outs[0].type.shape

    @cached_property
    def flips(self) -> tuple[bool, bool]:
        """Which of the operands are transposed."""
        op = self.step.op
        if isinstance(op, StoredMatMul):
            return False, True
        assert isinstance(op, (MatMul, QuantizedMatMul))
        return op.transpose_lhs, op.transpose_rhs

    @cached_property
    def left(self) -> tuple[int, int]:
        """How far apart neighbours of the left matrix lie along its rows, and its terms."""
        rows, terms = self.lhs.strides[-2:]
        return (terms, rows) if self.flips[0] else (rows, terms)

    @cached_property
    def right(self) -> tuple[int, int]:
        """How far apart neighbours of the right matrix lie along its terms, and its columns."""
        terms, columns = self.rhs.strides[-2:]
        return (columns, terms) if self.flips[1] else (terms, columns)

    @cached_property
    def is_merged(self) -> bool:
        """Whether there is one right matrix: then the rows of all left ones are rows of one."""
        return math.prod(self.rhs.type.shape[:-2]) == 1

    @cached_property
    def extents(self) -> Extents:
        """Of one product, or of all as one."""
        *batch, rows, columns = self.shape
        terms = self.lhs.type.shape[-2 if self.flips[0] else -1]
        count = math.prod(batch)
        if self.is_merged:
            return Extents(rows * count, columns, terms)
        return Extents(rows, columns, terms, count)

    def work(self, job: Job) -> Work:
        """What its time depends on."""
        size = self.lhs.type.dtype.itemsize
        extents = self.extents

        def copied(terms: int) -> int:
            pitch = -(-extents.terms // terms) * terms
            return extents.columns * pitch * size if self.packs(terms) else 0

        return Work(
            extents,
            extents.terms,
            lambda terms: -(-extents.terms // terms),
            (size, self.rhs.type.dtype.itemsize),
            moved_bytes(job),
            sum(b.type.dtype.itemsize for b in read_by_element(job)),
            least_terms=LEAST_TERMS * (2 if size == 1 else 1),
            packs=copied,
            right=self.rhs.type.nbytes,
        )

    def row_work(self, job: Job) -> RowWork:
        """The same, if there are few rows."""
        left, right = (each.type.dtype.itemsize for each in (self.lhs, self.rhs))
        return RowWork(self.extents, left, VECTOR // right, moved_bytes(job), self.packs)

    def packs(self, terms: int) -> bool:
        """Whether the right matrix is read from a copy, for blocks of so many terms.

        Its terms lie together there, and have zeros behind them that complete the last block.
        Tensor cores take bytes with a sign: others are copied as such.
        """
        if self.rhs.root.region is not Region.CONSTANT or not self.is_merged:
            return False
        whole = self.right[0] == 1 and self.extents.terms % terms == 0
        return not whole or self.rhs.type.dtype is u8


class Matrices:
    """Floats of two matrices."""

    sums: DType = f32
    own_steps = None

    def __init__(self, kernel: Kernel, tile: Tile) -> None:
        self.kernel, self.code, self.tile = kernel, kernel.code, tile
        self.layout = Layout(kernel.step)
        self.extents = self.layout.extents
        self.steps = -(-self.extents.terms // tile.terms)
        self.is_large = self.layout.rhs.type.nbytes >= LARGE
        self.is_packed = self.layout.packs(tile.terms)
        self.pitch = self.steps * tile.terms if self.is_packed else 0
        """Terms of a packed column."""

    def begin(self, block: Block) -> None:
        """Where the first blocks of both are."""
        code, layout = self.code, self.layout
        terms = code.range(self.tile.terms)
        self.left_terms, self.right_terms = (code.along(terms, axis, 2) for axis in (1, 0))
        self._begin_left(block)
        columns, self.right_masks = block.columns.read(
            contiguous=not self.is_packed and layout.right[0] != 1, axis=1
        )
        step = self.pitch if self.is_packed else layout.right[1]
        self.right_base = code.named(columns * step + self._matrix(layout.rhs, block))

    def _begin_left(self, block: Block) -> None:
        layout, code = self.layout, self.code
        rows, self.left_masks = block.rows.read(contiguous=layout.left[1] != 1, axis=0)
        strides = strides_within(layout.lhs, layout.shape)[:-2]
        if not layout.is_merged:
            base = rows * layout.left[0] + self._matrix(layout.lhs, block)
        else:
            pitch = (*strides, layout.left[0])
            extents, (merged,) = merge_alike(layout.shape[:-1], [pitch])
            base = offset(code, places_of(self.kernel, rows, extents), merged)
        self.left_base = code.named(base)

    def _matrix(self, operand: Buffer, block: Block) -> Value:
        """Where the matrix of a program begins."""
        if block.number is None:
            return self.code.index(0)
        strides = strides_within(operand, self.layout.shape)[:-2]
        return offset(self.code, self.fixed(block), strides)

    def multiply(self, step: Value, total: Value) -> None:
        """Add the product of two blocks."""
        left, right = self.left(step), self.right(step)
        if right.dtype is not left.dtype:
            right = convert(right, left.dtype)
        multiply_add(self.code, left, right, total, self.tile.precision)

    def left(self, step: Value, fill: Value | float = 0) -> Value:
        """A block of the left matrix."""
        terms, masks = self._terms(step, self.left_terms)
        place = self.left_base + terms * self.layout.left[1]
        pointer = self.kernel.pointer(self.layout.lhs)
        return load(pointer, place, [*self.left_masks, *masks], fill)

    def right(self, step: Value, fill: Value | float = 0) -> Value:
        """A block of the right matrix."""
        if self.is_packed:
            terms = self.code.named(step * self.tile.terms) + self.right_terms
            return load(self.packed(), self.right_base + terms, self.right_masks)
        terms, masks = self._terms(step, self.right_terms)
        place = self.right_base + terms * self.layout.right[0]
        pointer = self.kernel.pointer(self.layout.rhs)
        return load(pointer, place, [*self.right_masks, *masks], fill)

    def _terms(self, step: Value, own: Value) -> tuple[Value, list[Value]]:
        """The terms of an iteration, and the condition that there are so many."""
        terms = self.code.named(step * self.tile.terms) + own
        if self.extents.terms % self.tile.terms == 0:
            return terms, []
        terms = self.code.named(terms)
        return terms, [terms < self.extents.terms]

    @property
    def order(self) -> str:
        """What tells copies of the right matrix apart."""
        return f"columns of {self.pitch}{', transposed' if self.layout.flips[1] else ''}"

    def packed(self) -> Pointer:
        """The right matrix by columns, with zeros behind each."""
        return self.kernel.packed(self.layout.rhs, self.order, self.pack)

    def pack(self, data: Array) -> Array:
        """The right matrix as it is read."""
        return columns_of(self.layout.flips[1], self.pitch, data)

    def finish(self, total: Value, block: Block) -> Value:
        """The sums themselves."""
        return total

    def places(self, block: Block) -> Places:
        """Rows and columns of a matrix."""
        fixed, column = self.fixed(block), self.column(block)
        return places_by_row(self.kernel, fixed, block.rows.along(0), column)

    def fixed(self, block: Block) -> Sequence[Value]:
        """Which matrix it is, if there are several."""
        batch = self.layout.shape[:-2]
        if self.layout.is_merged:
            return []
        if block.number is None:
            return [self.code.index(0) for _ in batch]
        return places_of(self.kernel, block.number, batch)

    def column(self, block: Block) -> Value:
        """Columns of the matrix."""
        return block.columns.along(1)


def columns_of(flip: bool, pitch: int, data: Array) -> Array:
    """The columns of a matrix one after the other, each with zeros behind it."""
    matrix = data.reshape(data.shape[-2:])
    columns = matrix if flip else matrix.T
    return np.pad(columns, ((0, 0), (0, pitch - columns.shape[1])))
