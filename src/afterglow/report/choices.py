"""The candidate plans of each kernel of a program, estimated and optionally measured."""

from __future__ import annotations

from dataclasses import dataclass

from afterglow.backends.cpu.compile import Compile, compile_module
from afterglow.backends.cpu.target import Target
from afterglow.backends.cpu.tuning import Choice, PlanProgram, choices_of, measure
from afterglow.backends.cpu.write import symbol_of
from afterglow.backends.policy import Policy
from afterglow.instr import Program
from afterglow.memory.timeline import origin_of


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
    origins: tuple[str, ...]
    candidates: tuple[ExplainedCandidate, ...]


def explain_choices(
    plan: PlanProgram,
    target: Target,
    policy: Policy,
    *,
    seconds: float | None = None,
    compiled: Compile = compile_module,
) -> list[ExplainedChoice]:
    """The choices of a program; if `seconds` is given, candidates are measured on one thread."""
    program = plan(policy)
    choices = choices_of(program, target, policy)
    if seconds is not None:
        measure(
            plan,
            choices,
            target,
            policy,
            threads=1,
            seconds=seconds,
            compiled=compiled,
        )
    return [_explained(choice, program) for choice in choices]


def _explained(choice: Choice, program: Program) -> ExplainedChoice:
    anchor = choice.job.anchor
    assert anchor is not None
    return ExplainedChoice(
        kernel=symbol_of(choice.job, choice.plans[0]),
        operands=tuple(str(b.type) for b in anchor.ins[:2] if b is not None),
        result=str(anchor.outs[0].type),
        origins=tuple(origin_of(program.body[place]) for place in choice.places),
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
