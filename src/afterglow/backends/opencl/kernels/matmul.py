"""Matrix products."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from afterglow.backends.broadcast import strides_within
from afterglow.backends.job import Job
from afterglow.backends.opencl.clc import Pointer, Value
from afterglow.backends.opencl.clc.code import offset
from afterglow.backends.opencl.clc.types import is_arithmetic
from afterglow.backends.opencl.kernels.anchors import anchor
from afterglow.backends.opencl.kernels.around import read, write_result
from afterglow.backends.opencl.kernels.chain import places_of
from afterglow.backends.opencl.kernels.kernel import Kernel, KernelSource
from afterglow.backends.opencl.kernels.movement import begin
from afterglow.backends.opencl.kernels.tile import Sums, Tile, panels
from afterglow.backends.opencl.limits import Limits
from afterglow.backends.pointwise.vocabulary import convert
from afterglow.instr import Buffer, OpInstr, Region
from afterglow.ops.linear import MatMul
from afterglow.types import Array
from afterglow.types.dtype import f32


def _accepts(step: OpInstr, limits: Limits) -> bool:
    return is_arithmetic(step.outs[0].type.dtype)


@anchor(MatMul, accepts=_accepts)
def write_matmul(job: Job, limits: Limits) -> KernelSource:
    """In tiles of registers where vectors of columns can be read, else one result an item."""
    step = job.anchor
    assert step is not None
    tile = _tile(step, limits)
    return _write_plain(job, limits) if tile is None else _write_tiled(job, limits, tile)


def _tile(step: OpInstr, limits: Limits) -> Tile | None:
    """The tile of a product of f32; None if its columns are no vectors in memory."""
    assert isinstance(step.op, MatMul)
    lhs, rhs, out = step.operand(0), step.operand(1), step.outs[0]
    if any(b.type.dtype is not f32 for b in (lhs, rhs, out)):
        return None
    rows, columns = out.type.shape[-2:]
    tile = Tile.of(rows, columns, limits.lanes)
    if _is_packed(rhs):
        return tile
    if step.op.transpose_rhs or rhs.strides[-1] != 1:
        return None
    vectors, lanes = tile.vectors, tile.lanes
    while lanes > 1 and columns % (vectors * lanes):
        vectors, lanes = (1, lanes) if vectors > 1 else (1, lanes // 2)
    return Tile(tile.rows, vectors, lanes) if lanes > 1 else None


def _is_packed(rhs: Buffer) -> bool:
    """Whether the columns are packed when the program is compiled."""
    return rhs.root.region is Region.CONSTANT and math.prod(rhs.type.shape[:-2]) == 1


def _write_tiled(job: Job, limits: Limits, tile: Tile) -> KernelSource:
    kernel = Kernel(job, limits)
    step = kernel.step
    assert isinstance(step.op, MatMul)
    lhs, out = step.operand(0), step.outs[0]
    *batch, rows, columns = out.type.shape
    inner = lhs.type.shape[-2 if step.op.transpose_lhs else -1]
    kernel.items = (-(-rows // tile.rows), -(-columns // tile.columns), math.prod(batch))
    kernel.group = (1, 1, 1)
    code = kernel.code
    row = code.named(code.work_item(0) * tile.rows)
    panel = code.work_item(1)
    where = places_of(kernel, code.work_item(2), batch)
    base, (along_rows, along_terms) = _lhs(kernel, step, where)
    source, start, pitch = _columns(kernel, step, tile, where, panel)
    starts = [
        code.named(base + _bounded(row, m, rows, tile) * along_rows) for m in range(tile.rows)
    ]
    sums = Sums(kernel, tile, f32)
    with code.fused_loop(inner) as k:
        given = kernel.pointer(lhs)
        numbers = [given.load(each + k * along_terms) for each in starts]
        sums.add(source, start + k * pitch, numbers)
    sums.store(row, rows, panel * tile.columns, columns, lambda m, n: [*where, m, n])
    return kernel.finish()


def _bounded(first: Value, number: int, rows: int, tile: Tile) -> Value:
    """A row of the tile; the last row in place of those that there are not."""
    row = first + number
    if rows % tile.rows == 0 or number == 0:
        return row
    return first.code.named(Value(first.code, first.dtype, 1, f"min({row.text}, {rows - 1})"))


def _lhs(kernel: Kernel, step: OpInstr, where: list[Value]) -> tuple[Value, tuple[int, int]]:
    """Where the matrix of a batch begins, and how far apart its rows and its terms lie."""
    assert isinstance(step.op, MatMul)
    lhs = step.operand(0)
    strides = strides_within(lhs, step.outs[0].type.shape)
    base = offset(kernel.code, where, strides[:-2])
    first, second = lhs.strides[-2:]
    return base, (second, first) if step.op.transpose_lhs else (first, second)


def _columns(
    kernel: Kernel, step: OpInstr, tile: Tile, where: list[Value], panel: Value
) -> tuple[Pointer, Value, int]:
    """Where the columns of a panel are, its first element, and how far apart its terms lie."""
    assert isinstance(step.op, MatMul)
    rhs = step.operand(1)
    transposed = step.op.transpose_rhs
    if _is_packed(rhs):
        terms = rhs.type.shape[-1 if transposed else -2]

        order = f"panels of {tile.columns}, {'transposed' if transposed else 'straight'}"
        source = kernel.packed(rhs, order, partial(_pack, tile.columns, transposed))
        return source, kernel.code.named(panel * (terms * tile.columns)), tile.columns
    strides = strides_within(rhs, step.outs[0].type.shape)
    start = offset(kernel.code, where, strides[:-2]) + panel * tile.columns
    return kernel.pointer(rhs), kernel.code.named(start), rhs.strides[-2]


def _pack(columns: int, transposed: bool, data: Array) -> Array:
    matrix = data.reshape(data.shape[-2:])
    return panels(columns)(np.asarray(matrix.T if transposed else matrix)[None])


def _write_plain(job: Job, limits: Limits) -> KernelSource:
    """Each result by an item of its own."""
    kernel = Kernel(job, limits)
    step = kernel.step
    assert isinstance(step.op, MatMul)
    lhs, rhs, out = step.operand(0), step.operand(1), step.outs[0]
    *where, m, n = begin(kernel, step)
    dtype = out.type.dtype
    total = kernel.code.variable(kernel.code.constant(dtype, 0))
    inner = lhs.type.shape[-2 if step.op.transpose_lhs else -1]
    with kernel.code.loop(inner) as k:
        left = [k, m] if step.op.transpose_lhs else [m, k]
        right = [n, k] if step.op.transpose_rhs else [k, n]
        x = read(kernel, lhs, [*_aligned(where, lhs), *left])
        y = convert(read(kernel, rhs, [*_aligned(where, rhs), *right]), dtype)
        kernel.code.assign(total, total + x * y)
    write_result(kernel, total, [*where, m, n])
    return kernel.finish()


def _aligned(where: list[Value], operand: Buffer) -> list[Value]:
    """The place in the batch axes of an operand that is broadcast to the result's."""
    batch = operand.type.shape[:-2]
    own = where[len(where) - len(batch) :]
    return [p if n != 1 else p.like(0) for p, n in zip(own, batch, strict=True)]
