"""Give up workspace where it makes the arena large: kernels that need less and cost little more.

The workspace of a kernel is live while the kernel runs, so a smaller one makes the arena smaller
only at the peak. For a lower peak every step above it must take another plan; the cheapest one that
is small enough is taken, and the lowest peak that is worth what all of these cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from afterglow.instr import KernelPlan, OpInstr, Program, Region, Stack
from afterglow.memory.cancellation import cancellation_sensitive
from afterglow.memory.kernel_plans import set_plan
from afterglow.memory.lifetimes import aligned, lifetimes_of
from afterglow.memory.memories import MAIN_MEMORY
from afterglow.memory.planner import alignment_of
from afterglow.support.lazy_dataclass import dataclass

MOST_COST = 0.003
"""The share of the estimated cost of a program that may be added to it."""
LEAST_GAIN = 10.0
"""A share of the arena must be this much larger than the share of the cost that it is saved for."""


class AlternativePlans(Protocol):
    """All plans that a backend has for a step, the best first; none if it has no kernel for it."""

    def __call__(self, step: OpInstr | Stack, *, exact: bool = False) -> Sequence[KernelPlan]:
        """The plans; `exact` forbids algorithms that reorder sums."""


def reduce_workspace(program: Program, alternatives: AlternativePlans) -> int:
    """Change plans where that makes the peak lower and is worth it; say how many."""
    steps = _live_steps(program, alternatives)
    total = sum(step.plan.cost for step in steps)
    peak = max((step.live for step in steps), default=0)
    chosen: list[tuple[_Step, KernelPlan]] = []
    for level in sorted({level for step in steps for level in step.levels}, reverse=True):
        changes = _changes(steps, level)
        cost = sum(plan.cost - step.plan.cost for step, plan in changes or ())
        if changes is None or cost > MOST_COST * total:
            break
        if (peak - level) * total >= LEAST_GAIN * cost * peak:
            chosen = changes
    for step, plan in chosen:
        set_plan(program, step.instruction, plan)
    return len(chosen)


@dataclass(frozen=True)
class _Step:
    """An instruction with its plan, what is live while it runs, and what it could do instead."""

    instruction: OpInstr | Stack
    plan: KernelPlan
    live: int
    smaller: Sequence[tuple[int, KernelPlan]]
    """Plans with less workspace, the cheapest first, and what would be live with each."""

    @property
    def levels(self) -> list[int]:
        """How much may be live while it runs."""
        return [self.live, *(live for live, _ in self.smaller)]


def _changes(steps: Sequence[_Step], level: int) -> list[tuple[_Step, KernelPlan]] | None:
    """The cheapest plans with which at most `level` bytes are live; None if there are none."""
    found = []
    for step in steps:
        if step.live > level:
            plan = next((plan for live, plan in step.smaller if live <= level), None)
            if plan is None:
                return None
            found.append((step, plan))
    return found


def _live_steps(program: Program, alternatives: AlternativePlans) -> list[_Step]:
    alignment = alignment_of(program, MAIN_MEMORY)
    changes = np.zeros(len(program.body) + 2, np.int64)
    for life in lifetimes_of(program, alignment).values():
        changes[life.start] += life.size
        changes[life.end + 1] -= life.size
    sensitive = cancellation_sensitive(program)
    found = []
    for instruction, live in zip(program.body, np.cumsum(changes).tolist(), strict=False):
        if isinstance(instruction, (OpInstr, Stack)) and instruction.plan is not None:
            plans = alternatives(instruction, exact=instruction in sensitive)
            smaller = list(_smaller(instruction, instruction.plan, plans, live, alignment))
            found.append(_Step(instruction, instruction.plan, live, smaller))
    return found


def _smaller(
    step: OpInstr | Stack,
    current: KernelPlan,
    plans: Sequence[KernelPlan],
    live: int,
    alignment: int,
) -> list[tuple[int, KernelPlan]]:
    """Plans with less workspace in the arena and no more memory for each thread."""
    if any(b.region is not Region.ARENA or b.is_view for b in step.scratch):
        return []  # it lies where something else lies, and costs nothing
    without = live - _workspace(current, alignment)
    sized = ((without + _workspace(plan, alignment), plan) for plan in plans)
    fit = [
        (size, plan)
        for size, plan in sized
        if size < live and plan.cost >= current.cost and _takes_no_more(plan, current)
    ]
    return sorted(fit, key=lambda pair: pair[1].cost)


def _takes_no_more(plan: KernelPlan, current: KernelPlan) -> bool:
    """Whether a plan takes no more memory besides workspace: of threads, and for weights."""
    growth = plan.weight_growth - current.weight_growth
    return plan.thread_bytes <= current.thread_bytes and growth <= 0


def _workspace(plan: KernelPlan, alignment: int) -> int:
    return sum(aligned(size, alignment) for size in plan.workspace.values())
