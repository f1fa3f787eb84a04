"""Matrix products of floats by tensor cores."""

from __future__ import annotations

from afterglow.backends.cuda.kernels.kernel import Kernel, KernelSource
from afterglow.backends.cuda.kernels.matrices import Matrices
from afterglow.backends.cuda.kernels.products import write_product
from afterglow.backends.cuda.kernels.table import ANCHORS
from afterglow.backends.cuda.kernels.tile import Tile
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


@ANCHORS.declare(MatMul, accepts=_accepts)
def write_matmul(job: Job, target: CudaTarget, plan: KernelPlan) -> KernelSource:
    """A product in the tiles that a plan says."""
    kernel = Kernel(job, target)
    tile = Tile.of(plan.settings)
    write_product(kernel, Matrices(kernel, tile), tile)
    return kernel.finish()
