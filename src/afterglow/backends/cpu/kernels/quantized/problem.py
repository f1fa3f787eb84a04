"""Convolutions and matrix products of bytes as one problem: rows of runs of bytes times columns."""

from __future__ import annotations

import math
from dataclasses import replace

from afterglow.backends.broadcast import Strides, strides_within
from afterglow.backends.cpu.kernels.quantized.dots import QUAD, read_type
from afterglow.backends.cpu.micro.rows import Axes, pixel_axes
from afterglow.backends.cpu.target import Target
from afterglow.instr import Buffer, OpInstr, Region, row_major
from afterglow.ops.convolution import Convolution
from afterglow.ops.linear import MatMul
from afterglow.ops.quantized import QuantizedConv, QuantizedMatMul
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType, u8


@dataclass(frozen=True)
class ByteReading:
    """How x is read: where it lies, or a copy [batch…, K] of it with padding and no gaps.

    `begins` says how much padding comes before each axis, `strides` are those of what is read.
    """

    x: Buffer
    own_strides: Strides
    own_shape: tuple[int, ...]
    shape: tuple[int, ...]
    begins: tuple[int, ...]
    strides: Strides
    dtype: DType
    zero_point: int
    """Of x as it is read; added to the operand if there is one."""
    zero: Buffer | None
    """The zero point of x where it is an operand."""
    copied: bool

    @property
    def size(self) -> int:
        """Elements of a copy: whoever reads the last ones may read a quad."""
        return math.prod(self.shape) + QUAD


@dataclass(frozen=True)
class ByteWeight:
    """Weights as [count, columns, depth]: where the elements lie.

    After every `inner` elements of the depth `fill` zeros are packed, if that is not 0.
    `zero_point` is what to subtract once they are signed bytes; `columns_first` tells whether the
    shape has columns before the depth.
    """

    buffer: Buffer
    columns_first: bool
    count: int
    columns: int
    counts: Axes
    column_stride: int
    depths: Axes
    zero_point: int
    inner: int = 1
    fill: int = 0

    @property
    def is_constant(self) -> bool:
        """Whether it is known when the code is made."""
        return is_constant(self.buffer)

    @property
    def is_unsigned(self) -> bool:
        """Whether 128 is to be subtracted to make signed bytes of them."""
        return self.buffer.type.dtype is u8


@dataclass(frozen=True)
class QuantizedProblem:
    """For each batch and group, rows of x times columns of a weight.

    A row is `outer` runs of `run` bytes. Batch b has rows from b * rows on, group g columns from
    g * columns on; `numbers` says which weight a batch has, groups have one each.
    """

    reading: ByteReading
    weight: ByteWeight
    batches: int
    batch: Axes
    numbers: Axes
    groups: int
    group_stride: int
    pixels: Axes
    outer: Axes
    run: int
    rows: int
    columns: int
    together: int = QUAD
    """Elements of a row that are multiplied at once."""

    @property
    def steps(self) -> int:
        """Steps along a run, in the last of which there may be less to multiply."""
        return -(-self.run // self.together)

    @property
    def lines(self) -> int:
        """Steps along a row."""
        return math.prod(self.outer.extents) * self.steps

    @property
    def depth(self) -> int:
        """Products that are summed."""
        return math.prod(self.outer.extents) * self.run

    @property
    def work(self) -> float:
        """Multiplications and additions."""
        return 2.0 * self.batches * self.groups * self.rows * self.columns * self.depth


def problem_of(step: OpInstr, target: Target) -> QuantizedProblem:
    """The problem that a step states."""
    if isinstance(step.op, QuantizedConv):
        return _of_conv(step, step.op, target)
    assert isinstance(step.op, QuantizedMatMul)
    return _of_matmul(step, step.op, target)


def is_constant(weight: Buffer) -> bool:
    """Whether the elements of a weight are known when the code is made."""
    return weight.root.region is Region.CONSTANT


def operands(step: OpInstr) -> tuple[Buffer, Buffer]:
    """The two factors of a step."""
    x, weight = step.required[:2]
    return x, weight


def reading_of_conv(
    step: OpInstr, op: QuantizedConv, dtype: DType, whole: int | None = None
) -> ByteReading:
    """How the x of a convolution is read; copied, too, if runs are not of `whole` bytes."""
    found = reading_of_windows(step, op, op.x_zero_point, dtype, whole)
    return replace(found, zero=step.optional(4))


def reading_of_windows(
    step: OpInstr,
    op: Convolution,
    zero_point: int,
    dtype: DType,
    whole: int | None = None,
    *,
    fills: bool = False,
) -> ByteReading:
    """The same of any convolution, given what pads its x; channels may be filled up, too."""
    x, weight = operands(step)
    batch, *extents, channels = x.type.shape
    windows = op.windows(weight.type.shape)
    sides = zip(windows.begins, extents, windows.needed_ends(extents), strict=True)
    more = -channels % whole if fills and whole else 0
    shape = (batch, *map(sum, sides), channels + more)
    run = run_of(op, weight.type.shape, x.strides)
    odd = whole is not None and run % whole != 0
    return _reading(x, x.strides, x.type.shape, shape, zero_point, dtype, odd, windows.begins)


def _reading(
    x: Buffer,
    strides: Strides,
    own: tuple[int, ...],
    shape: tuple[int, ...],
    zero_point: int,
    dtype: DType,
    odd: bool,
    begins: tuple[int, ...] = (),
) -> ByteReading:
    copied = odd or shape != own or strides[-1] != 1 or x.type.dtype is not dtype
    if x.type.dtype is not dtype and dtype.bits == 8:
        zero_point += 128 if dtype is u8 else -128
    before = (0, *begins, 0) if begins else (0,) * len(shape)
    used = row_major(shape) if copied else strides
    return ByteReading(x, strides, own, shape, before, used, dtype, zero_point, None, copied)


def run_of(op: Convolution, weight: tuple[int, ...], strides: Strides) -> int:
    """Neighbouring bytes that all meet a weight: the channels of a row of the window, or of one."""
    *_, width, inner = weight
    joined = op.groups == 1 and op.dilations[-1] == 1 and strides[-2] == inner
    return width * inner if joined else inner


def _of_conv(step: OpInstr, op: QuantizedConv, target: Target) -> QuantizedProblem:
    x, weight = operands(step)
    dtype = read_type(target, x.type.dtype, constant=is_constant(weight))
    reading = reading_of_conv(step, op, dtype, QUAD)
    return problem_of_windows(step, op, reading, weight_of_conv(weight, op))


def problem_of_windows(
    step: OpInstr, op: Convolution, reading: ByteReading, own: ByteWeight, together: int = QUAD
) -> QuantizedProblem:
    """The problem of a convolution, given how its operands are read."""
    _, weight = operands(step)
    result, strides = step.outs[0].type.shape, reading.strides
    shape = (*weight.type.shape[:-1], weight.type.shape[-1] + own.fill)
    run = run_of(op, shape, strides)
    spatial = strides[1:-1]
    jumps = [s * n for s, n in zip(spatial, op.strides, strict=True)]
    holes = [s * n for s, n in zip(spatial, op.dilations, strict=True)]
    kernel = shape[1:-1] if run == shape[-1] else shape[1:-2]
    return QuantizedProblem(
        reading=reading,
        weight=own,
        batches=1,
        batch=Axes((), ()),
        numbers=Axes((), ()),
        groups=op.groups,
        group_stride=shape[-1],
        pixels=pixel_axes(result[:-1], (strides[0], *jumps)),
        outer=Axes.merged(kernel, holes[: len(kernel)]),
        run=run,
        rows=math.prod(result[:-1]),
        columns=own.columns,
        together=together,
    )


def weight_of_conv(weight: Buffer, op: QuantizedConv) -> ByteWeight:
    """Where the weights of a convolution of bytes lie."""
    zero_point = op.weight_zero_point - (128 if weight.type.dtype is u8 else 0)
    return weight_of_windows(weight, op, zero_point)


def weight_of_windows(weight: Buffer, op: Convolution, zero_point: int = 0) -> ByteWeight:
    """Where the weights of a convolution lie."""
    shape, strides = weight.type.shape, weight.strides
    columns = shape[0] // op.groups
    return ByteWeight(
        buffer=weight,
        columns_first=True,
        count=op.groups,
        columns=columns,
        counts=Axes((op.groups,), (columns * strides[0],)),
        column_stride=strides[0],
        depths=Axes.merged(shape[1:], strides[1:]),
        zero_point=zero_point,
    )


def _of_matmul(step: OpInstr, op: QuantizedMatMul, target: Target) -> QuantizedProblem:
    lhs, rhs = operands(step)
    dtype = read_type(target, lhs.type.dtype, constant=is_constant(rhs))
    zero_points = (op.lhs_zero_point, _zero_point_of(rhs, op))
    return problem_of_matrices(step, op, dtype, zero_points)


def problem_of_matrices(
    step: OpInstr,
    op: QuantizedMatMul | MatMul,
    dtype: DType,
    zero_points: tuple[int, int] = (0, 0),
    together: int = QUAD,
) -> QuantizedProblem:
    """The problem of a product of matrices, given the type in which lhs is read."""
    lhs, rhs = operands(step)
    shape = step.outs[0].type.shape
    left = matrix_last(lhs.type.shape, op.transpose_lhs)
    own = matrix_last(strides_within(lhs, lhs.type.shape), op.transpose_lhs)
    odd = left[-1] % together != 0
    shape_read = (*left[:-1], left[-1] + (-left[-1] % together if dtype.is_float else 0))
    reading = _reading(lhs, own, left, shape_read, zero_points[0], dtype, odd)
    *batch, rows, columns = shape
    jumps = _aligned(left[:-2], reading.strides[:-2], len(batch))
    row = reading.strides[-2]
    numbers = _aligned(rhs.type.shape[:-2], row_major((*rhs.type.shape[:-2], 1))[:-1], len(batch))
    while batch and not numbers[-1] and (rows == 1 or jumps[-1] == rows * row or batch[-1] == 1):
        row = jumps[-1] if rows == 1 else row
        rows *= batch[-1]
        batch, jumps, numbers = batch[:-1], jumps[:-1], numbers[:-1]
    return QuantizedProblem(
        reading=reading,
        weight=_weight_of_matrices(rhs, op, left[-1], columns, zero_points[1]),
        batches=math.prod(batch),
        batch=Axes.merged(batch, jumps),
        numbers=Axes.merged(batch, numbers),
        groups=1,
        group_stride=0,
        pixels=Axes((rows,), (row,)),
        outer=Axes((), ()),
        run=left[-1],
        rows=rows,
        columns=columns,
        together=together,
    )


def weight_of_matmul(rhs: Buffer, op: QuantizedMatMul, depth: int, columns: int) -> ByteWeight:
    """Where the weights of a matrix product of bytes lie."""
    return _weight_of_matrices(rhs, op, depth, columns, _zero_point_of(rhs, op))


def _zero_point_of(rhs: Buffer, op: QuantizedMatMul) -> int:
    """What to subtract of the weights once they are signed bytes."""
    return op.rhs_zero_point - (128 if rhs.type.dtype is u8 else 0)


def _weight_of_matrices(
    rhs: Buffer, op: QuantizedMatMul | MatMul, depth: int, columns: int, zero_point: int
) -> ByteWeight:
    *batch, line, column = matrix_last(rhs.strides, op.transpose_rhs)
    return ByteWeight(
        buffer=rhs,
        columns_first=op.transpose_rhs,
        count=math.prod(rhs.type.shape[:-2]),
        columns=columns,
        counts=Axes.merged(rhs.type.shape[:-2], batch),
        column_stride=column,
        depths=Axes((depth,), (line,)),
        zero_point=zero_point,
    )


def matrix_last(extents: tuple[int, ...], transposed: bool) -> tuple[int, ...]:
    """What an operand has along its axes, those of its matrix in order."""
    *batch, rows, columns = extents
    return (*batch, columns, rows) if transposed else (*batch, rows, columns)


def _aligned(shape: tuple[int, ...], strides: tuple[int, ...], rank: int) -> list[int]:
    """The strides of an operand along the batch axes of the result."""
    own = [0 if extent == 1 else stride for extent, stride in zip(shape, strides, strict=True)]
    return [0] * (rank - len(shape)) + own
