"""Keep packed weights within a budget: kernels whose weights take less, where little is lost.

Some algorithms are fast because they read sums of weights, which take several times the memory of
the weights. Where those of all steps together exceed the budget, steps take other plans: first the
ones that lose the least time for each byte that is saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heapreplace

from afterglow.instr import Buffer, KernelPlan, OpInstr, Program, Stack
from afterglow.memory.cancellation import cancellation_sensitive
from afterglow.memory.kernel_plans import set_plan
from afterglow.memory.workspace import AlternativePlans
from afterglow.support.lazy_dataclass import dataclass

LEAST_ROOM = 1 << 20
"""Bytes that the weights of any model may grow by."""


def fit_weights(
    program: Program, alternatives: AlternativePlans, most: float, least_room: int = LEAST_ROOM
) -> int:
    """Change plans until packed weights take at most so many times their memory; say how many.

    Plans whose weights grow the least are taken at the end, whether that is enough or not.
    """
    steps = _growing_steps(program)
    nbytes = sum(constant.type.nbytes for constant in program.constants)
    budget = max(least_room, (most - 1) * nbytes)
    if _growth(steps) <= budget:
        return 0
    sensitive = cancellation_sensitive(program)
    for group in steps.values():
        first = group.steps[0]
        group.plans = alternatives(first, exact=first in sensitive)
    room = _reduce(list(steps.values()), budget)
    _restore(list(steps.values()), room)
    changed = [group for group in steps.values() if group.plan != group.best]
    for group in changed:
        for step in group.steps:
            set_plan(program, step, group.plan)
    return sum(len(group.steps) for group in changed)


@dataclass
class _Group:
    """Steps that share packed weights, the plan for each, and the others there are."""

    steps: list[OpInstr | Stack]
    plan: KernelPlan
    plans: Sequence[KernelPlan] = ()

    def next(self) -> tuple[float, KernelPlan]:
        """The plan with smaller weights that loses the least for each byte, and what it loses."""
        smaller = [plan for plan in self.plans if plan.weight_growth < self.plan.weight_growth]
        losses = [(self._loss(plan), place) for place, plan in enumerate(smaller)]
        loss, place = min(losses, default=(float("inf"), -1))
        return loss, smaller[place] if smaller else self.plan

    @property
    def best(self) -> KernelPlan:
        """The plan that its steps have."""
        plan = self.steps[0].plan
        assert plan is not None
        return plan

    def _loss(self, plan: KernelPlan) -> float:
        saved = self.plan.weight_growth - plan.weight_growth
        return len(self.steps) * (plan.cost - self.plan.cost) / saved


_Key = tuple[tuple[Buffer | None, ...], str, float]


def _growing_steps(program: Program) -> dict[_Key, _Group]:
    """The steps whose weights grow, by what they pack and how."""
    found: dict[_Key, _Group] = {}
    for step in program.body:
        if isinstance(step, (OpInstr, Stack)) and step.plan is not None and step.plan.weight_growth:
            constants = tuple(b for b in _operands(step) if b in program.constants)
            key = constants, step.plan.variant, step.plan.cost
            found.setdefault(key, _Group([], step.plan)).steps.append(step)
    return found


def _operands(step: OpInstr | Stack) -> list[Buffer]:
    body = step.body if isinstance(step, Stack) else (step,)
    return [buffer.root for each in body for buffer in each.ins if buffer is not None]


def _growth(steps: dict[_Key, _Group]) -> int:
    return sum(group.plan.weight_growth for group in steps.values())


def _reduce(groups: Sequence[_Group], budget: float) -> float:
    """Take smaller plans, the ones that lose least first, until the budget is enough.

    Returns the bytes that are left of it, less than none if nothing is enough.
    """
    room = budget - sum(group.plan.weight_growth for group in groups)
    heap = [(group.next()[0], place) for place, group in enumerate(groups)]
    heapify(heap)
    while room < 0 and heap[0][0] < float("inf"):
        group = groups[heap[0][1]]
        room += group.plan.weight_growth
        group.plan = group.next()[1]
        room -= group.plan.weight_growth
        heapreplace(heap, (group.next()[0], heap[0][1]))
    return room


def _restore(groups: Sequence[_Group], room: float) -> None:
    """Give back the best plans that fit after all, beginning with those that gain most."""
    changed = [group for group in groups if group.plan != group.best]
    for group in sorted(changed, key=lambda group: group.best.cost - group.plan.cost):
        more = group.best.weight_growth - group.plan.weight_growth
        if more <= room:
            group.plan, room = group.best, room - more
