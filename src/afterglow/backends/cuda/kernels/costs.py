"""How long kernels take, about, in operations that take as long at the target's peak."""

from __future__ import annotations

from afterglow.backends.cuda.target import CudaTarget
from afterglow.backends.job import Job

LAUNCH_SECONDS = 2e-6
"""The time of a kernel that does next to nothing."""
_FEW_PROGRAMS = 2
"""Programs that each multiprocessor needs to read at the full speed of the memory."""


def moving_cost(job: Job, target: CudaTarget, programs: int, passes: int = 1) -> float:
    """The cost of reading and writing all buffers of a job.

    `passes` is how often the largest is gone through: all but the first from a cache.
    """
    sizes = [buffer.type.nbytes for buffer in job.buffers]
    moved = sum(sizes) + (passes - 1) * max(sizes, default=0) / 2
    busy = min(1.0, max(1, programs) / (_FEW_PROGRAMS * target.units))
    return target.cost_of(LAUNCH_SECONDS + moved / (target.bandwidth * busy))
