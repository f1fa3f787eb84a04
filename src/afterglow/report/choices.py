"""The candidate plans of each kernel of a program, estimated and optionally measured."""

from __future__ import annotations

from afterglow.backends.capabilities import Choice, PlanProgram, Tuning
from afterglow.backends.policy import Policy
from afterglow.graph import Origins
from afterglow.instr import Program, origins_of
from afterglow.runtime.device import LoadOptions
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class ExplainedCandidate:
    """A candidate plan of a kernel: its estimated cost, its memory, and its measured time."""

    name: str
    cost: float
    workspace_bytes: int
    thread_bytes: int
    seconds: float | None


@dataclass(frozen=True)
class ExplainedChoice:
    """A kernel, the nodes that use it, and its candidate plans, the chosen one first."""

    kernel: str
    operands: tuple[str, ...]
    result: str
    origins: tuple[Origins, ...]
    """The nodes of the model that each of its instructions computes."""
    candidates: tuple[ExplainedCandidate, ...]


def explain_choices(
    backend: Tuning, plan: PlanProgram, policy: Policy, seconds: float | None = None
) -> list[ExplainedChoice]:
    """The choices of a program; measured on one thread for some seconds, if any are given."""
    program = plan(policy)
    choices = backend.choices(program)
    if seconds is not None:
        backend.measure(plan, choices, LoadOptions(threads=1), seconds)
    return [_explained(choice, program) for choice in choices]


def _explained(choice: Choice, program: Program) -> ExplainedChoice:
    anchor = choice.anchor
    return ExplainedChoice(
        kernel=choice.kernel,
        operands=tuple(str(b.type) for b in anchor.ins[:2] if b is not None),
        result=str(anchor.outs[0].type),
        origins=tuple(origins_of(program.body[place]) for place in choice.places),
        candidates=tuple(
            ExplainedCandidate(
                each.variant,
                each.cost,
                each.workspace_bytes,
                each.thread_bytes,
                choice.seconds.get(each.variant),
            )
            for each in choice.plans
        ),
    )
