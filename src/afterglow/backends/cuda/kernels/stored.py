"""Products with a matrix of few bits, which is read as it is stored and unpacked in registers."""

from __future__ import annotations

from dataclasses import replace

from afterglow.backends.cuda.kernels.kernel import Kernel, KernelSource
from afterglow.backends.cuda.kernels.matrices import Layout
from afterglow.backends.cuda.kernels.packed_matrix import PackedMatrix
from afterglow.backends.cuda.kernels.products import write_product
from afterglow.backends.cuda.kernels.stored_rows import StoredRows
from afterglow.backends.cuda.kernels.stored_tiles import StoredTiles
from afterglow.backends.cuda.kernels.strips import ROWS, RowWork, Strip, plans_of_rows
from afterglow.backends.cuda.kernels.table import ANCHORS
from afterglow.backends.cuda.kernels.tile import Tile
from afterglow.backends.cuda.kernels.tile_cost import VECTOR, Work
from afterglow.backends.cuda.kernels.tile_plans import MOST, plans_of
from afterglow.backends.cuda.kernels.tile_results import operations_after
from afterglow.backends.cuda.target import CudaTarget
from afterglow.backends.job import Job
from afterglow.instr import KernelPlan, OpInstr
from afterglow.ops.stored import Activations, StoredMatMul
from afterglow.types.dtype import f32

UNPACKING = 5
"""Operations that make a real of a stored number, about."""


def _accepts(step: OpInstr, target: CudaTarget) -> bool:
    assert isinstance(step.op, StoredMatMul)
    is_exact = step.op.activations is Activations.FLOAT32
    return is_exact and PackedMatrix.of(step).is_known and step.operand(0).type.size > 0


def _work(job: Job, layout: Layout, matrix: PackedMatrix, target: CudaTarget) -> Work:
    """A product of floats, but for the bytes of its right matrix."""
    work = layout.work(job)
    return replace(
        work,
        bytes=(work.bytes[0], matrix.bits / 8),
        moved=work.moved - matrix.saved,
        operations=operations_after(job, target),
        unpacking=UNPACKING,
        least_terms=matrix.chunk,
        packs=lambda terms: 0,
    )


def _row_work(job: Job, layout: Layout, matrix: PackedMatrix) -> RowWork:
    """The same for few rows."""
    work = layout.row_work(job)
    return replace(
        work,
        moved=work.moved - matrix.saved,
        vector=VECTOR * matrix.parts // 4,
        packs=lambda terms: True,
        least=matrix.chunk,
        added=matrix.parts,
        operations=UNPACKING,
    )


def _plans(job: Job, target: CudaTarget) -> list[KernelPlan]:
    assert job.anchor is not None
    layout, matrix = Layout(job.anchor), PackedMatrix.of(job.anchor)
    tiles = plans_of(_work(job, layout, matrix, target), target)
    rows = plans_of_rows(_row_work(job, layout, matrix), target)
    found = rows + [replace(plan, packed=(1,)) for plan in tiles]
    return sorted(found, key=lambda plan: plan.cost)[:MOST]


@ANCHORS.declare(StoredMatMul, accepts=_accepts, plans=_plans)
def write_stored_product(job: Job, target: CudaTarget, plan: KernelPlan) -> KernelSource:
    """A product as a plan says."""
    kernel = Kernel(job, target)
    if plan.algorithm == ROWS:
        kernel.fuses = True
        StoredRows(kernel, Strip.of(plan)).write()
        return kernel.finish()
    tile = Tile.of(plan.settings)
    write_product(kernel, StoredTiles(kernel, tile), tile)
    if kernel.step.operand(0).type.dtype is f32:
        kernel.registers = 0  # so many products of f32 are written out that fewer would be spilled
    return kernel.finish()
