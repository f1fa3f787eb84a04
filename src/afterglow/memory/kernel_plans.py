"""Plan the kernels of a program, so that the memory they work in is planned with all other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from afterglow.instr import Buffer, KernelPlan, OpInstr, Program, Region, Stack
from afterglow.memory.cancellation import cancellation_sensitive
from afterglow.types import TensorType
from afterglow.types.dtype import u8


class PlanStep(Protocol):
    """How a backend plans the kernel of a step; `exact` forbids algorithms that reorder sums."""

    def __call__(self, step: OpInstr | Stack, *, exact: bool = False) -> KernelPlan | None:
        """The plan; None if the backend has no kernel for the step."""


def by_definition(step: OpInstr | Stack, *, exact: bool = False) -> KernelPlan:
    """The plan of whoever runs every step by the definition of its ops."""
    return KernelPlan("definition")


def plan_kernels(program: Program, plan: PlanStep) -> None:
    """Give every step its plan, and scratch operands for the workspace that the plan needs.

    What steps had of both before is replaced. Lifetimes come after.
    """
    sensitive = cancellation_sensitive(program)
    for step in program.body:
        if isinstance(step, (OpInstr, Stack)):
            set_plan(program, step, plan(step, exact=step in sensitive))


def set_plan(program: Program, step: OpInstr | Stack, plan: KernelPlan | None) -> None:
    """Give a step a plan, and scratch operands for its workspace. Lifetimes come after."""
    step.plan = plan
    step.scratch = tuple(_workspace(program, step, plan))


def _workspace(
    program: Program, step: OpInstr | Stack, plan: KernelPlan | None
) -> Iterator[Buffer]:
    first = step if isinstance(step, OpInstr) else step.body[-1]
    for name, size in ({} if plan is None else plan.workspace).items():
        unique = program.names.claim(f"{first.outs[0].name}.{name}")
        yield Buffer(unique, TensorType(u8, (size,)), Region.ARENA)
