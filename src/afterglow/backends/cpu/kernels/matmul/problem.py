"""A matrix product with as few axes as possible: batches of rows times columns."""

from __future__ import annotations

import math
from dataclasses import replace

from afterglow.backends.broadcast import strides_within
from afterglow.backends.cpu.micro.rows import Axes
from afterglow.instr import Buffer, OpInstr, Region
from afterglow.ops.linear import MatMul
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType
from afterglow.types.extent import largest


@dataclass(frozen=True)
class Matrix:
    """An operand: where batch b begins, and how far apart rows and columns lie.

    `numbers` gives, for batch b, which of the buffer's matrices it is, in their order.
    """

    buffer: Buffer
    batch: Axes
    numbers: Axes
    row_stride: int
    column_stride: int

    @property
    def is_constant(self) -> bool:
        """Whether it is known when the code is made."""
        return self.buffer.root.region is Region.CONSTANT

    @property
    def dtype(self) -> DType:
        """Its element type."""
        return self.buffer.type.dtype

    @property
    def largest(self) -> Matrix:
        """The operand with the largest distances that it may have."""
        row_stride, column_stride = largest(self.row_stride), largest(self.column_stride)
        return replace(self, row_stride=row_stride, column_stride=column_stride)


@dataclass(frozen=True)
class GemmProblem:
    """`batches` times lhs [rows, depth] by rhs [depth, columns].

    Row m of batch b is row b * rows + m of the result.
    """

    batches: int
    rows: int
    columns: int
    depth: int
    lhs: Matrix
    rhs: Matrix
    transposed_rhs: bool

    @property
    def work(self) -> float:
        """Multiplications and additions."""
        return 2.0 * self.batches * self.rows * self.columns * self.depth

    @property
    def largest(self) -> GemmProblem:
        """The problem with the largest extents that it may have."""
        extents = (self.batches, self.rows, self.columns, self.depth)
        batches, rows, columns, depth = (largest(extent) for extent in extents)
        return GemmProblem(
            batches, rows, columns, depth, self.lhs.largest, self.rhs.largest, self.transposed_rhs
        )


def problem_of(step: OpInstr) -> GemmProblem:
    """The problem of a step."""
    assert isinstance(step.op, MatMul)
    lhs, rhs = step.required
    return product_problem(step.op, lhs, rhs, step.outs[0].type.shape)


def product_problem(op: MatMul, lhs: Buffer, rhs: Buffer, shape: tuple[int, ...]) -> GemmProblem:
    """The problem of a product; batch axes that only lhs has become rows where strides allow."""
    *left, row, depth = _aligned(lhs, len(shape), op.transpose_lhs)
    *right, line, column = _aligned(rhs, len(shape), op.transpose_rhs)
    inner = lhs.type.shape[-2 if op.transpose_lhs else -1]
    batch, rows = list(shape[:-2]), shape[-2]
    while batch and _continues(batch[-1], left[-1], right[-1], rows, row):
        rows, row = rows * batch[-1], row if rows != 1 else left[-1]
        batch, left, right = batch[:-1], left[:-1], right[:-1]
    return GemmProblem(
        math.prod(batch),
        rows,
        shape[-1],
        inner,
        Matrix(lhs, Axes.merged(batch, left), _numbers(lhs, shape, batch), row, depth),
        Matrix(rhs, Axes.merged(batch, right), _numbers(rhs, shape, batch), line, column),
        op.transpose_rhs,
    )


def _aligned(operand: Buffer, rank: int, transposed: bool) -> list[int]:
    """The strides of an operand along the axes of the result, those of its matrix in order."""
    *batch, rows, columns = strides_within(operand, operand.type.shape)
    padded = [0] * (rank - 2 - len(batch)) + batch
    return [*padded, columns, rows] if transposed else [*padded, rows, columns]


def _numbers(operand: Buffer, shape: tuple[int, ...], batch: list[int]) -> Axes:
    """The places of an operand's matrices if they lay without gaps, one element each."""
    strides: list[int] = []
    step = 1
    for extent in reversed(operand.type.shape[:-2]):
        strides.insert(0, 0 if extent == 1 else step)
        step *= extent
    padded = [0] * (len(shape) - operand.type.rank) + strides
    return Axes.merged(batch, padded[: len(batch)])


def _continues(extent: int, left: int, right: int, rows: int, row: int) -> bool:
    """Whether the rows of the next batch are more rows of this one."""
    return extent == 1 or (right == 0 and (left == rows * row or rows == 1))
