"""The kernels of the CUDA backend, by op, and the one of element-wise steps alone."""

from __future__ import annotations

from afterglow.backends.cuda.kernels.kernel import Kernel, KernelSource
from afterglow.backends.cuda.target import CudaTarget
from afterglow.backends.items import elementwise
from afterglow.backends.items.anchors import AnchorTable
from afterglow.backends.items.families import SHARED
from afterglow.backends.job import Job

ANCHORS: AnchorTable[CudaTarget, KernelSource] = AnchorTable(Kernel, SHARED)
"""First what is declared for this backend, as in `@ANCHORS.declare(MatMul, accepts=…)`, then what
serves all."""


def write_elementwise(job: Job, target: CudaTarget) -> KernelSource:
    """Element-wise steps as one kernel."""
    kernel = Kernel(job, target)
    elementwise.write_elementwise(kernel)
    return kernel.finish()
