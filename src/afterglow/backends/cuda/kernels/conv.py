"""Convolutions of floats by tensor cores, as products of windows that are made while read."""

from __future__ import annotations

from dataclasses import replace

from afterglow.backends.cuda.kernels.conv_layout import ConvLayout
from afterglow.backends.cuda.kernels.convolutions import Windows
from afterglow.backends.cuda.kernels.kernel import Kernel, KernelSource
from afterglow.backends.cuda.kernels.products import write_product
from afterglow.backends.cuda.kernels.table import ANCHORS
from afterglow.backends.cuda.kernels.tile import IEEE, Tile
from afterglow.backends.cuda.kernels.tile_plans import plans_of
from afterglow.backends.cuda.kernels.tile_results import operations_after
from afterglow.backends.cuda.target import CudaTarget
from afterglow.backends.job import Job
from afterglow.instr import KernelPlan, OpInstr
from afterglow.ops.convolution import Conv
from afterglow.types.dtype import bf16, f16, f32


def _accepts(step: OpInstr, target: CudaTarget) -> bool:
    layout = ConvLayout(step)
    return (
        layout.x.type.dtype in (f16, bf16, f32)
        and layout.x.type.size > 0
        and layout.weight.type.size > 0
        and (layout.is_constant or layout.weight.is_dense)
        and not layout.is_depthwise
    )


def plans(job: Job, target: CudaTarget, precision: str = IEEE) -> list[KernelPlan]:
    """The tiles of a convolution, the best first."""
    assert job.anchor is not None
    work = replace(ConvLayout(job.anchor).work(job), operations=operations_after(job, target))
    return plans_of(work, target, precision)


@ANCHORS.declare(Conv, accepts=_accepts, plans=plans)
def write_conv(job: Job, target: CudaTarget, plan: KernelPlan) -> KernelSource:
    """A convolution in the tiles that a plan says."""
    kernel = Kernel(job, target)
    tile = Tile.of(plan.settings)
    write_product(kernel, Windows(kernel, tile), tile)
    return kernel.finish()
