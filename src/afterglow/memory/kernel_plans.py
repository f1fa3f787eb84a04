"""Plan the kernels of a program, so that the memory they work in is planned with all other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from afterglow.instr import (
    Alloc,
    Buffer,
    Dealloc,
    Instr,
    KernelPlan,
    OpInstr,
    Program,
    Region,
    Stack,
)
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

    What steps had of both before is replaced.
    """
    sensitive = cancellation_sensitive(program)
    body: list[Instr] = []
    dropped: set[Buffer] = set()
    for step in program.body:
        if isinstance(step, (OpInstr, Stack)):
            dropped.update(step.scratch)
            step.plan = plan(step, exact=step in sensitive)
            step.scratch = tuple(_workspace(program, step))
            body.extend(map(Alloc, step.scratch))
        body.append(step)
    program.body = [step for step in body if not _marks(step, dropped)]


def _marks(step: Instr, buffers: set[Buffer]) -> bool:
    """Whether a step begins or ends the life of one of some buffers."""
    return isinstance(step, (Alloc, Dealloc)) and step.buffer in buffers


def _workspace(program: Program, step: OpInstr | Stack) -> Iterator[Buffer]:
    if step.plan is None:
        return
    first = step if isinstance(step, OpInstr) else step.body[-1]
    for name, size in step.plan.workspace.items():
        unique = program.names.claim(f"{first.outs[0].name}.{name}")
        yield Buffer(unique, TensorType(u8, (size,)), Region.ARENA)
