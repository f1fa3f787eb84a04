"""Which steps one kernel can do together: the rules that all code generators share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from afterglow.backends.broadcast import reads_alike
from afterglow.backends.job import Job
from afterglow.backends.pointwise import has_expression, supports
from afterglow.instr import OpInstr


class Surroundings(Protocol):
    """What the kernel of an anchor takes in besides the anchor."""

    @property
    def fuses(self) -> tuple[str, ...]:
        """The operands that steps before it may compute while they are read."""

    @property
    def epilogue(self) -> bool:
        """Whether steps after it may work on its result."""


def has_own_expression(step: OpInstr) -> bool:
    """Whether a step is an expression of the elements at one place."""
    operands = [None if b is None else b.type.dtype for b in step.ins]
    known = has_expression(type(step.op)) and len(step.outs) == 1
    return known and supports(step.op, step.outs[0].type.dtype, operands)


def refusal_of(job: Job, accepts: Callable[[OpInstr], bool] | None) -> str:
    """Why there is no kernel for a job; an empty string if there is one.

    `accepts` is what the kernel of its anchor takes, None if there is no such kernel.
    """
    for step in (*job.before, *job.after):
        if not has_own_expression(step):
            return f"there is no kernel for {step.op.mnemonic}"
    anchor = job.anchor
    if anchor is None:
        return ""
    if accepts is None:
        return f"there is no kernel for {anchor.op.mnemonic}"
    if not accepts(anchor):
        return f"the kernel for {anchor.op.mnemonic} does not take these operands"
    return ""


def can_join(job: Job, kernel: Surroundings | None) -> bool:
    """Whether one kernel, that of the anchor if there is one, can do all steps of a job."""
    if not all(map(_read_alike, (job.before, job.after))):
        return False
    return job.anchor is None or (kernel is not None and _fits_around(job, job.anchor, kernel))


def _read_alike(steps: Sequence[OpInstr]) -> bool:
    return not steps or reads_alike(steps, steps[0].outs[0].type.shape)


def _fits_around(job: Job, anchor: OpInstr, kernel: Surroundings) -> bool:
    """Whether the steps around an anchor can run inside its kernel."""
    named = zip(anchor.op.operand_names, anchor.ins, strict=False)
    fused = {b for name, b in named if name in kernel.fuses}
    made_before = {out for step in job.before for out in step.outs}
    read_after = {b for step in job.after for b in step.ins}
    shape = anchor.outs[0].type.shape
    return (
        made_before <= job.locals
        and not made_before & ((set(anchor.ins) - fused) | read_after)
        and (kernel.epilogue or not job.after)
        and all(step.outs[0].type.shape == shape for step in job.after)
        and not read_after.intersection(anchor.outs[1:])
    )
