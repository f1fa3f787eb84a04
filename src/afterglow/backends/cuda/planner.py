"""Which kernel computes a step, if there is one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from afterglow.backends.cuda.kernels.families import ANCHORS, write_elementwise
from afterglow.backends.cuda.kernels.kernel import KernelSource
from afterglow.backends.cuda.kernels.packed_matrix import PackedMatrix
from afterglow.backends.cuda.target import CudaTarget
from afterglow.backends.cuda.tl.types import HELD
from afterglow.backends.fusion import can_join, refusal_of
from afterglow.backends.items.anchors import Anchor
from afterglow.backends.job import Job
from afterglow.backends.launched.generated import NOTHING, Computation
from afterglow.backends.launched.repeated import plan_scan, scan_refusal
from afterglow.backends.policy import Policy
from afterglow.instr import ON_HOST, Buffer, Copy, KernelPlan, OpInstr, Stack
from afterglow.ops.control import Scan
from afterglow.ops.flops import step_flops
from afterglow.types.extent import is_ranged

Way: TypeAlias = Anchor[CudaTarget, KernelSource]
"""How an op is computed."""
HOST = KernelPlan(ON_HOST)
"""The plan of a step that the host runs, by the definition of its op, as it has no kernel."""
KERNEL = "items"
"""The algorithm of kernels in which every item computes one result."""
LAUNCH_SECONDS = 2e-6
"""What any kernel takes at least, in a graph."""


def plans(step: OpInstr | Stack, target: CudaTarget, policy: Policy) -> list[KernelPlan]:
    """The plans of a step, the best first; none for a stack that one kernel cannot do."""
    job = Job.of(step)
    if job.is_empty:
        return [NOTHING]
    if isinstance(step, OpInstr) and isinstance(step.op, Scan):
        return [HOST] if refusal(job, target) else [plan_scan(step)]
    if refusal(job, target):
        return [] if isinstance(step, Stack) else [HOST]
    anchor = _anchor_of(job, target)
    if isinstance(step, Stack) and not can_join(job, anchor):
        return []
    return _chosen(_plans_of(job, anchor, target), job, policy)


def write(step: Computation, target: CudaTarget) -> KernelSource:
    """The kernel of a step that has one, as its plan says."""
    job = Job.of(step)
    anchor = _anchor_of(job, target)
    if anchor is None:
        return write_elementwise(job, target)
    plan = None if isinstance(step, Copy) else step.plan
    made: KernelSource = anchor.write(job, target, *([] if anchor.plans is None else [plan]))
    return made


def refusal(job: Job, target: CudaTarget) -> str:
    """Why there is no kernel for a job; an empty string if there is one."""
    dtypes = {b.type.dtype for step in job.steps for b in _read_as_they_are(step)}
    refused = [dtype for dtype in dtypes if dtype not in HELD]
    if refused:
        return f"the device has no elements of {', '.join(sorted(map(str, refused)))}"
    if any(is_ranged(n) for b in job.buffers for n in b.type.shape):
        return "its extents are known only when it runs"
    if any(isinstance(step.op, Scan) for step in job.steps):
        return scan_refusal(job.steps)
    if job.anchor is not None and type(job.anchor.op) not in ANCHORS:
        return refusal_of(job, None)
    return refusal_of(job, lambda step: ANCHORS.find(step, target) is not None)


def _read_as_they_are(step: OpInstr) -> list[Buffer]:
    """The operands and results of a step whose elements kernels read and write by their type."""
    packed = PackedMatrix.constants(step)
    return [b for b in (*step.outs, *step.ins) if b is not None and b not in packed]


def _anchor_of(job: Job, target: CudaTarget) -> Way | None:
    return None if job.anchor is None else ANCHORS.find(job.anchor, target)


def _plans_of(job: Job, anchor: Way | None, target: CudaTarget) -> Sequence[KernelPlan]:
    if anchor is not None and anchor.plans is not None:
        return anchor.plans(job, target)
    return [KernelPlan(KERNEL, cost=cost_of(job, target))]


def cost_of(job: Job, target: CudaTarget) -> float:
    """What a kernel costs that is bound by memory, or by arithmetic outside of tensor cores."""
    moved = sum(buffer.type.nbytes for buffer in job.buffers) / target.bandwidth
    flops = sum(map(step_flops, job.steps)) / target.flops
    return target.cost_of(max(moved, flops) + LAUNCH_SECONDS)


def _chosen(found: Sequence[KernelPlan], job: Job, policy: Policy) -> list[KernelPlan]:
    """The plans, first the one that was measured to be the fastest, if there is such a one."""
    wanted = policy.variants.get(job.key)
    first = [plan for plan in found if plan.variant == wanted]
    return [*first, *(plan for plan in found if plan.variant != wanted)]
