"""Element-wise steps as one kernel: a work-item for each few neighbouring elements."""

from __future__ import annotations

from afterglow.backends.items import elementwise
from afterglow.backends.items.lanes import FLOAT_BITS
from afterglow.backends.job import Job
from afterglow.backends.opencl.kernels.kernel import Kernel, KernelSource
from afterglow.backends.opencl.limits import Limits


def write_elementwise(job: Job, limits: Limits) -> KernelSource:
    """The kernel, with as many lanes as vectors of all its element types allow."""
    lanes = limits.lanes
    while True:
        kernel = Kernel(job, limits)
        used = elementwise.write_elementwise(kernel, lanes)
        if used == 1 or kernel.code.widest <= limits.lanes * FLOAT_BITS:
            return kernel.finish()
        lanes = used // 2
