"""Kernel selection: which kernels exist for a job, their plans, and their code."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import afterglow.backends.cpu.kernels  # noqa: F401  fills the table
from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.elementwise import write_elementwise
from afterglow.backends.cpu.kernels.table import ENTRIES, check_exact, has_machine_types
from afterglow.backends.cpu.micro.cost import plain_cost, surrounding_cost
from afterglow.backends.cpu.micro.fusion import reads_alike
from afterglow.backends.cpu.micro.job import Job
from afterglow.backends.cpu.micro.kernel import Kernel, KernelRequest
from afterglow.backends.cpu.pointwise import has_expression, supports
from afterglow.backends.cpu.target import Target
from afterglow.backends.policy import Policy
from afterglow.graph import Op
from afterglow.instr import KernelPlan, OpInstr
from afterglow.ops.signal import Dft
from afterglow.support.errors import CompileError

ELEMENTWISE = "element-wise"
"""The algorithm of jobs without an anchor."""
MOST_NAMES = 3
"""Steps that the symbol of a kernel names."""
_UNSPELLABLE = re.compile(r"[^\w.-]")
"""What a symbol may not have in it, such as the signs of a ranged extent."""


def keeps(op: Op) -> bool:
    """Whether there is a kernel or an expression for an op, so that it need not be lowered."""
    return type(op) in ENTRIES or has_expression(type(op))


def is_left_to_host(op: Op) -> bool:
    """Whether the host computes an op whole rather than machine code in parts.

    NumPy's inverse transform takes n log n steps, and tests expect the rounding of that algorithm.
    """
    return isinstance(op, Dft) and op.inverse


def has_own_expression(step: OpInstr) -> bool:
    """Whether a step is an expression of the elements at one place."""
    operands = [None if b is None else b.type.dtype for b in step.ins]
    known = has_expression(type(step.op)) and len(step.outs) == 1
    return known and supports(step.op, step.outs[0].type.dtype, operands)


def can_write(job: Job) -> bool:
    """Whether there is a kernel for a job."""
    return not refusal(job)


def refusal(job: Job) -> str:
    """Why there is no kernel for a job; an empty string if there is one."""
    if not has_machine_types(job):
        return "its elements are not of the machine's types"
    for step in (*job.before, *job.after):
        if not has_own_expression(step):
            return f"there is no kernel for {step.op.mnemonic}"
    anchor = job.anchor
    if anchor is None:
        return ""
    entry = ENTRIES.get(type(anchor.op))
    if entry is None:
        return f"there is no kernel for {anchor.op.mnemonic}"
    if not entry.accepts(anchor):
        return f"the kernel for {anchor.op.mnemonic} does not take these operands"
    return ""


def can_fuse(job: Job) -> bool:
    """Whether one kernel can do all steps of a stack."""
    if not can_write(job) or not all(map(_read_alike, (job.before, job.after))):
        return False
    return job.anchor is None or _fits_around(job, job.anchor)


def _read_alike(steps: Sequence[OpInstr]) -> bool:
    return not steps or reads_alike(steps, steps[0].outs[0].type.shape)


def _fits_around(job: Job, anchor: OpInstr) -> bool:
    """Whether the steps around an anchor can run inside its kernel."""
    entry = ENTRIES[type(anchor.op)]
    named = zip(anchor.op.operand_names, anchor.ins, strict=False)
    fused = {b for name, b in named if name in entry.fuses}
    made_before = {out for step in job.before for out in step.outs}
    read_after = {b for step in job.after for b in step.ins}
    shape = anchor.outs[0].type.shape
    return (
        made_before <= job.locals
        and not made_before & ((set(anchor.ins) - fused) | read_after)
        and (entry.epilogue or not job.after)
        and all(step.outs[0].type.shape == shape for step in job.after)
        and not read_after.intersection(anchor.outs[1:])
    )


def algorithms_for(request: KernelRequest) -> list[Algorithm]:
    """The algorithms for a job that can be computed, the fastest by an estimate first."""
    anchor = request.job.anchor
    if anchor is None:
        return [Algorithm(ELEMENTWISE, plain_cost(request.job), write_elementwise)]
    check_exact(anchor)
    return ENTRIES[type(anchor.op)].algorithms(request)


def plans_for(job: Job, target: Target, policy: Policy) -> list[KernelPlan]:
    """Plans for a job that can be computed, as far as the policy admits them, the best first."""
    extra = surrounding_cost(job)
    found = algorithms_for(KernelRequest(job, target))
    allowed = [algorithm for algorithm in found if algorithm.is_allowed(policy)]
    return [algorithm.plan(extra) for algorithm in allowed]


def write_kernel(job: Job, target: Target, plan: KernelPlan, *, unchecked: bool = False) -> Kernel:
    """The kernel of a job, written by a plan for it."""
    request = KernelRequest(job, target)
    chosen = next((each for each in algorithms_for(request) if each.follows(plan)), None)
    if chosen is None:
        raise CompileError(f"no kernel of {symbol_of(job, plan)} follows {plan.variant!r}")
    kernel = Kernel(request, symbol_of(job, plan), chosen.needs, unchecked=unchecked)
    chosen.write(kernel)
    return kernel


def symbol_of(job: Job, plan: KernelPlan) -> str:
    """A name that profilers show, such as `conv_relu_5f3a9c12`; equal for equal kernels."""
    names = [step.op.mnemonic for step in (*job.before, *job.after)]
    if job.anchor is not None:
        names.insert(len(job.before), ENTRIES[type(job.anchor.op)].name(job.anchor))
    digest = hashlib.blake2b(f"{plan.variant}\n{job.key}".encode(), digest_size=4).hexdigest()
    return _UNSPELLABLE.sub("_", "_".join([*names[:MOST_NAMES], digest]))
