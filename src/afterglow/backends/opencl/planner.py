"""Which kernel computes a step, if there is one."""

from __future__ import annotations

import afterglow.backends.opencl.kernels  # noqa: F401  fills the table
from afterglow.backends.fusion import can_join, refusal_of
from afterglow.backends.items.anchors import Anchor
from afterglow.backends.job import Job
from afterglow.backends.launched.generated import NOTHING
from afterglow.backends.launched.repeated import plan_scan, scan_refusal
from afterglow.backends.opencl.clc.types import HELD
from afterglow.backends.opencl.kernels.elementwise import write_elementwise
from afterglow.backends.opencl.kernels.kernel import KernelSource
from afterglow.backends.opencl.kernels.table import ANCHORS
from afterglow.backends.opencl.limits import Limits
from afterglow.instr import ON_HOST, Copy, KernelPlan, OpInstr, Stack
from afterglow.ops.control import Scan
from afterglow.ops.flops import step_flops
from afterglow.types.dtype import DType, f64
from afterglow.types.extent import is_ranged

HOST = KernelPlan(ON_HOST)
"""The plan of a step that the host runs, by the definition of its op, as it has no kernel."""
FLOPS_PER_BYTE = 4.0
"""FLOPs in the time in which a byte comes from memory, about."""
KERNEL = "kernel"
"""The algorithm of everything that has a kernel."""


def plans(step: OpInstr | Stack, limits: Limits) -> list[KernelPlan]:
    """The plan of a step; none for a stack that one kernel cannot do."""
    job = Job.of(step)
    if job.is_empty:
        return [NOTHING]
    if isinstance(step, OpInstr) and isinstance(step.op, Scan):
        return [HOST] if refusal(job, limits) else [plan_scan(step)]
    if isinstance(step, Stack):
        return [_plan(job)] if can_fuse(job, limits) else []
    return [HOST] if refusal(job, limits) else [_plan(job)]


def write(step: OpInstr | Stack | Copy, limits: Limits) -> KernelSource:
    """The kernel of a step that has one."""
    job = Job.of(step)
    anchor = _anchor_of(job, limits)
    return write_elementwise(job, limits) if anchor is None else anchor.write(job, limits)


def refusal(job: Job, limits: Limits) -> str:
    """Why there is no kernel for a job; an empty string if there is one."""
    dtypes = {b.type.dtype for step in job.steps for b in (*step.outs, *step.ins) if b is not None}
    refused = [dtype for dtype in dtypes if not _is_held(dtype, limits)]
    if refused:
        return f"the device has no elements of {', '.join(sorted(map(str, refused)))}"
    if any(is_ranged(n) for b in job.buffers for n in b.type.shape):
        return "its extents are known only when it runs"
    if any(isinstance(step.op, Scan) for step in job.steps):
        return scan_refusal(job.steps)
    if job.anchor is not None and type(job.anchor.op) not in ANCHORS:
        return refusal_of(job, None)
    return refusal_of(job, lambda step: ANCHORS.find(step, limits) is not None)


def can_fuse(job: Job, limits: Limits) -> bool:
    """Whether one kernel can do all steps of a stack."""
    return not refusal(job, limits) and can_join(job, _anchor_of(job, limits))


def _anchor_of(job: Job, limits: Limits) -> Anchor[Limits, KernelSource] | None:
    return None if job.anchor is None else ANCHORS.find(job.anchor, limits)


def _is_held(dtype: DType, limits: Limits) -> bool:
    return dtype in HELD and (dtype is not f64 or limits.double)


def _plan(job: Job) -> KernelPlan:
    moved = sum(buffer.type.nbytes for buffer in job.buffers)
    flops = sum(map(step_flops, job.steps))
    return KernelPlan(KERNEL, cost=max(flops, FLOPS_PER_BYTE * moved))
