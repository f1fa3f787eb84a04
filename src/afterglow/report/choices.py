"""What the kernels of a program chose between, with estimates and, if wanted, measurements."""

from __future__ import annotations

from dataclasses import dataclass

from afterglow.backends.cpu.compile import Compile, compile_module
from afterglow.backends.cpu.target import Target
from afterglow.backends.cpu.tuning import Choice, choices_of, made_inputs, measure
from afterglow.backends.cpu.write import symbol_of
from afterglow.backends.policy import Policy
from afterglow.instr import Program
from afterglow.memory.timeline import origin_of


@dataclass(frozen=True)
class ExplainedCandidate:
    """A way to write a kernel: about how many FLOPs take as long, and how long it took."""

    name: str
    cost: float
    seconds: float | None


@dataclass(frozen=True)
class ExplainedChoice:
    """What one kernel does, where in the model it is used, and the ways to do it.

    The first candidate is the one that is chosen.
    """

    kernel: str
    operands: tuple[str, ...]
    result: str
    origins: tuple[str, ...]
    candidates: tuple[ExplainedCandidate, ...]


def explain_choices(
    program: Program,
    target: Target,
    policy: Policy,
    *,
    seconds: float | None = None,
    compiled: Compile = compile_module,
) -> list[ExplainedChoice]:
    """The choices of a planned program; measured on one thread for so many seconds, if any."""
    choices = choices_of(program, target, policy)
    if seconds is not None:
        measure(
            program,
            choices,
            target,
            policy,
            inputs=made_inputs(program),
            threads=1,
            seconds=seconds,
            compiled=compiled,
        )
    return [_explained(choice, program) for choice in choices]


def _explained(choice: Choice, program: Program) -> ExplainedChoice:
    anchor = choice.job.anchor
    assert anchor is not None
    return ExplainedChoice(
        kernel=symbol_of(choice.job),
        operands=tuple(str(b.type) for b in anchor.ins[:2] if b is not None),
        result=str(anchor.outs[0].type),
        origins=tuple(origin_of(program.body[place]) for place in choice.places),
        candidates=tuple(
            ExplainedCandidate(each.name, each.cost, choice.seconds.get(each.name))
            for each in choice.candidates
        ),
    )
