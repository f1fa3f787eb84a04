"""Products and convolutions of bytes by tensor cores, whose sums are exact in 32 bits.

Tensor cores multiply bytes with a sign; those without one are moved by 128, and their zero points
with them. What zero points add to the sums of products is known from the sums of each column of
the weight, and of each row of what it is multiplied with.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from afterglow.backends.cuda.kernels.conv_layout import ConvLayout
from afterglow.backends.cuda.kernels.convolutions import Windows
from afterglow.backends.cuda.kernels.kernel import Kernel, KernelSource
from afterglow.backends.cuda.kernels.matrices import Layout, Matrices
from afterglow.backends.cuda.kernels.products import Block, write_product
from afterglow.backends.cuda.kernels.table import ANCHORS
from afterglow.backends.cuda.kernels.tile import Tile
from afterglow.backends.cuda.kernels.tile_blocks import multiply_add
from afterglow.backends.cuda.kernels.tile_plans import plans_of
from afterglow.backends.cuda.target import CudaTarget
from afterglow.backends.cuda.tl import Pointer, Value
from afterglow.backends.job import Job
from afterglow.backends.pointwise.vocabulary import convert
from afterglow.instr import Buffer, KernelPlan, OpInstr, Region
from afterglow.ops.quantized import QuantizedConv, QuantizedMatMul
from afterglow.types import Array
from afterglow.types.dtype import DType, f32, i8, i32, u8

MOVED = 128
"""How far bytes without a sign are moved."""


class _Bytes:
    """What products and convolutions of bytes share, besides how they read their operands."""

    kernel: Kernel
    tile: Tile
    steps: int
    is_packed: bool
    order: str
    left: Any
    right: Any
    pack: Any
    column: Any
    sums: DType = i32

    def prepare(self) -> None:
        """The zero points, of bytes with a sign."""
        kernel, code = self.kernel, self.kernel.code
        x, weight = (kernel.step.operand(number) for number in (0, 1))
        known, of_weight = zero_points(kernel.step)
        self.moved = [MOVED if operand.type.dtype is u8 else 0 for operand in (x, weight)]
        self.zero_of_weight = of_weight - self.moved[1]
        self.fill: Value | float
        self.zero: Value | int
        if known is None:
            self.fill = kernel.pointer(kernel.step.operand(4)).load(0)
            self.zero = convert(self.fill, i32) - self.moved[0]
        else:
            self.fill, self.zero = known, known - self.moved[0]
        if self.zero_of_weight:
            rows = code.constant(i32, 0)
            self.row_sums = code.variable(rows, "rows", (self.tile.rows,))

    def multiply(self, step: Value, total: Value) -> None:
        """Add the product of two blocks, and the sums of rows if they are needed."""
        left, right = _signed(self.left(step, self.fill)), _signed(self.right(step))
        if self.zero_of_weight:
            rows, text = self.row_sums.text, f"{left.text}.to(tl.int32)"
            self.kernel.code.perform(f"{rows} = {rows} + tl.sum({text}, 1)")
        multiply_add(self.kernel.code, left, right, total, self.tile.precision)

    def packed(self) -> Pointer:
        """The weight as bytes with a sign."""
        moved = self.moved[1]

        def pack(data: Array) -> Array:
            signed: Array = self.pack((data.astype(np.int16) - moved).astype(np.int8))
            return signed

        weight = self.kernel.step.operand(1)
        return self.kernel.packed(weight, f"{self.order} from {moved}", pack, i8)

    def column_sums(self) -> Pointer:
        """The sum of each column of the weight as it is multiplied."""
        step, moved = self.kernel.step, self.moved[1]
        weight, op = step.operand(1), step.op
        flips = isinstance(op, QuantizedConv) or op.transpose_rhs  # type: ignore[attr-defined]

        def add_up(data: Array) -> Array:
            matrix = data.reshape(data.shape[0], -1) if isinstance(op, QuantizedConv) else data
            matrix = matrix.reshape(matrix.shape[-2:])
            wide = matrix.astype(np.int32) - moved
            sums: Array = wide.sum(1 if flips else 0, dtype=np.int32)
            return sums

        order = f"sums of columns{'' if flips else ' transposed'} from {moved}"
        return self.kernel.packed(weight, order, add_up, i32)

    def finish(self, total: Value, block: Block) -> Value:
        """The sums of differences from zero points, with the bias, times the scale."""
        step, code, column = self.kernel.step, self.kernel.code, self.column(block)
        if isinstance(self.zero, Value) or self.zero:
            total = total - self.column_sums().load(column) * self.zero
        if self.zero_of_weight:
            terms = self.steps * self.tile.terms
            rows = code.define(f"{self.row_sums.text}[:, None]", i32, (self.tile.rows, 1))
            both = code.constant(i32, 0) + self.zero
            total = total - (rows - both * terms) * self.zero_of_weight
        scale, bias = step.optional(2), step.optional(3)
        if bias is not None:
            total = total + self.kernel.pointer(bias).load(column * bias.strides[0])
        if scale is None:
            return total
        place = column * scale.strides[0] if scale.type.rank else code.index(0)
        return convert(total, f32) * self.kernel.pointer(scale).load(place)


def _signed(block: Value) -> Value:
    """Bytes with a sign."""
    if block.dtype is i8:
        return block
    return block.derive(f"({block.text} ^ {MOVED}).to(tl.int8, bitcast=True)", i8)


def zero_points(step: OpInstr) -> tuple[int | None, int]:
    """Of the left operand, None if it is known only when it runs, and of the right one."""
    if isinstance(step.op, QuantizedMatMul):
        return step.op.lhs_zero_point, step.op.rhs_zero_point
    assert isinstance(step.op, QuantizedConv)
    known = step.op.x_zero_point if step.optional(4) is None else None
    return known, step.op.weight_zero_point


class _ByteMatrices(_Bytes, Matrices):
    """Bytes of two matrices."""

    def begin(self, block: Block) -> None:
        """See the base."""
        self.prepare()
        Matrices.begin(self, block)


class _ByteWindows(_Bytes, Windows):
    """Bytes of windows, and those of a weight."""

    def begin(self, block: Block) -> None:
        """See the base."""
        self.prepare()
        Windows.begin(self, block)

    def read_bias(self, block: Block) -> Value | None:
        """None of floats."""
        return None


def _is_weight(buffer: Buffer) -> bool:
    return buffer.root.region is Region.CONSTANT and buffer.type.size > 0


def _whole(found: list[KernelPlan], step: OpInstr) -> list[KernelPlan]:
    """The plans by which a program has whole rows, if their sums are needed."""
    signless = step.operand(1).type.dtype is u8
    if zero_points(step)[1] == (MOVED if signless else 0):
        return found
    return [plan for plan in found if "split" not in plan.settings]


def _matmul_accepts(step: OpInstr, target: CudaTarget) -> bool:
    layout = Layout(step)
    return (
        _is_weight(layout.rhs)
        and layout.is_merged
        and layout.lhs.type.size > 0
        and layout.left[1] == 1
    )


def _matmul_plans(job: Job, target: CudaTarget) -> list[KernelPlan]:
    assert job.anchor is not None
    return _whole(plans_of(Layout(job.anchor).work(job), target), job.anchor)


@ANCHORS.declare(QuantizedMatMul, accepts=_matmul_accepts, plans=_matmul_plans)
def write_quantized_matmul(job: Job, target: CudaTarget, plan: KernelPlan) -> KernelSource:
    """A product of bytes in the tiles that a plan says."""
    kernel, tile = Kernel(job, target), Tile.of(plan.settings)
    write_product(kernel, _ByteMatrices(kernel, tile), tile)
    return kernel.finish()


def _conv_accepts(step: OpInstr, target: CudaTarget) -> bool:
    layout = ConvLayout(step)
    is_known = _is_weight(layout.weight) and layout.x.type.size > 0
    return is_known and layout.x.strides[-1] == 1 and not layout.is_depthwise


def _conv_plans(job: Job, target: CudaTarget) -> list[KernelPlan]:
    assert job.anchor is not None
    return _whole(plans_of(ConvLayout(job.anchor).work(job), target), job.anchor)


@ANCHORS.declare(QuantizedConv, accepts=_conv_accepts, plans=_conv_plans)
def write_quantized_conv(job: Job, target: CudaTarget, plan: KernelPlan) -> KernelSource:
    """A convolution of bytes in the tiles that a plan says."""
    kernel, tile = Kernel(job, target), Tile.of(plan.settings)
    write_product(kernel, _ByteWindows(kernel, tile), tile)
    return kernel.finish()
