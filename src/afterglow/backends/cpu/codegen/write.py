"""Kernel selection: which kernels exist for a job, their plans, and their code."""

from __future__ import annotations

import hashlib
import re

import afterglow.backends.cpu.kernels  # noqa: F401  fills the table
from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.elementwise import write_elementwise
from afterglow.backends.cpu.kernels.table import (
    ENTRIES,
    KernelEntry,
    check_exact,
    has_machine_types,
)
from afterglow.backends.cpu.micro.cost import plain_cost, surrounding_cost
from afterglow.backends.cpu.micro.kernel import Kernel, KernelRequest
from afterglow.backends.cpu.pointwise import has_expression
from afterglow.backends.cpu.target import Target
from afterglow.backends.fusion import can_join, refusal_of
from afterglow.backends.job import Job
from afterglow.backends.policy import Policy
from afterglow.graph import Op
from afterglow.instr import KernelPlan
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


def can_write(job: Job) -> bool:
    """Whether there is a kernel for a job."""
    return not refusal(job)


def refusal(job: Job) -> str:
    """Why there is no kernel for a job; an empty string if there is one."""
    if not has_machine_types(job):
        return "its elements are not of the machine's types"
    entry = _entry_of(job)
    return refusal_of(job, None if entry is None else entry.accepts)


def can_fuse(job: Job) -> bool:
    """Whether one kernel can do all steps of a stack."""
    return can_write(job) and can_join(job, _entry_of(job))


def _entry_of(job: Job) -> KernelEntry | None:
    return None if job.anchor is None else ENTRIES.get(type(job.anchor.op))


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
