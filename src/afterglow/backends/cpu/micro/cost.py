"""What steps cost: estimates of time, in FLOPs that take as long on the target."""

from __future__ import annotations

from afterglow.backends.cpu.micro.job import Job
from afterglow.instr import OpInstr

FLOPS_PER_BYTE = 4.0
"""FLOPs in the time in which a byte comes from memory."""


def plain_cost(job: Job) -> float:
    """The cost of the anchor of a job by its definition, or of all steps if there is none.

    That is the arithmetic, or the memory if that takes longer.
    """
    steps = job.steps if job.anchor is None else (job.anchor,)
    touched = {buffer for step in steps for _, buffer in step.accesses()}
    used = [buffer for buffer in job.buffers if buffer in touched]
    flops = sum(2.0 * _work(step) for step in steps)
    return max(flops, FLOPS_PER_BYTE * sum(buffer.type.nbytes for buffer in used))


def surrounding_cost(job: Job) -> float:
    """What the element-wise steps around an anchor add to its cost: what else they read."""
    if job.anchor is None:
        return 0.0
    own = {*job.anchor.ins, *job.anchor.outs}
    extra = [buffer for buffer in job.buffers if buffer not in own]
    flops = sum(_work(step) for step in (*job.before, *job.after))
    return flops + FLOPS_PER_BYTE * sum(buffer.type.nbytes for buffer in extra)


def _work(step: OpInstr) -> float:
    operands = [None if buffer is None else buffer.type for buffer in step.ins]
    return float(step.op.work(step.outs[0].type, operands))
