"""Matrix products of floats: by tensor cores, or as fast as memory where rows are few."""

from __future__ import annotations

from dataclasses import replace

from afterglow.backends.cuda.kernels.few_rows import write_rows
from afterglow.backends.cuda.kernels.kernel import Kernel, KernelSource
from afterglow.backends.cuda.kernels.matrices import Layout, Matrices
from afterglow.backends.cuda.kernels.products import write_product
from afterglow.backends.cuda.kernels.strips import ROWS, plans_of_rows
from afterglow.backends.cuda.kernels.table import ANCHORS
from afterglow.backends.cuda.kernels.tile import IEEE, Tile
from afterglow.backends.cuda.kernels.tile_plans import MOST, plans_of
from afterglow.backends.cuda.kernels.tile_results import operations_after
from afterglow.backends.cuda.target import CudaTarget
from afterglow.backends.job import Job
from afterglow.instr import KernelPlan, OpInstr
from afterglow.ops.linear import MatMul
from afterglow.types.dtype import bf16, f16, f32

PAIRS = {(f16, f16), (bf16, bf16), (f32, f32), (f32, f16), (f32, bf16)}
"""Element types of operands that are multiplied in tiles."""


def _accepts(step: OpInstr, target: CudaTarget) -> bool:
    lhs, rhs = (step.operand(number).type for number in (0, 1))
    return (lhs.dtype, rhs.dtype) in PAIRS and lhs.size > 0 and rhs.size > 0


def plans(job: Job, target: CudaTarget, precision: str = IEEE) -> list[KernelPlan]:
    """The tiles of a product, the best first."""
    assert job.anchor is not None
    layout = Layout(job.anchor)
    work = replace(layout.work(job), operations=operations_after(job, target))
    found = plans_of_rows(layout.row_work(job), target) + plans_of(work, target, precision)
    return sorted(found, key=lambda plan: plan.cost)[:MOST]


@ANCHORS.declare(MatMul, accepts=_accepts, plans=plans)
def write_matmul(job: Job, target: CudaTarget, plan: KernelPlan) -> KernelSource:
    """A product as a plan says."""
    kernel = Kernel(job, target)
    if plan.algorithm == ROWS:
        write_rows(kernel, plan)
        return kernel.finish()
    tile = Tile.of(plan.settings)
    write_product(kernel, Matrices(kernel, tile), tile)
    return kernel.finish()
