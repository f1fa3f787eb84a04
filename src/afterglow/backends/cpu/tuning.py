"""Choosing between the plans of kernels by trying them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np

from afterglow.backends.cpu.codegen.build import build
from afterglow.backends.cpu.codegen.planner import Planner
from afterglow.backends.cpu.llvm.compile import Compile
from afterglow.backends.cpu.micro.job import Job
from afterglow.backends.cpu.step_times import StepTimer
from afterglow.backends.cpu.target import Target
from afterglow.backends.policy import Policy
from afterglow.instr import KernelPlan, OpInstr, Program, Stack
from afterglow.memory.cancellation import cancellation_sensitive
from afterglow.types import Array, TensorType
from afterglow.types.dtype import string

MOST_TRIED = 4
"""Plans of a job that are tried: those with the least estimates."""
LEAST_RUNS = 3
"""Runs of each plan, however little time there is."""
LEAST_GAIN = 1.03
"""How much faster another plan must be than the estimated best: less may be noise."""

PlanProgram = Callable[[Policy], Program]
"""Plans the program that is tuned, within a policy."""


@dataclass
class Choice:
    """A job for which there are plans, and where in the program it is done.

    The first plan is the one that is estimated to be the fastest. `seconds` are of those that were
    tried, by variant.
    """

    job: Job
    plans: Sequence[KernelPlan]
    places: list[int] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def best(self) -> str:
        """The variant that was fastest when tried, if any was, and if that is no noise."""
        estimated = self.plans[0].variant
        if not self.seconds:
            return estimated
        variant = min(self.seconds, key=self.seconds.__getitem__)
        gain = self.seconds.get(estimated, math.inf) / self.seconds[variant]
        return variant if gain >= LEAST_GAIN else estimated


def choices_of(program: Program, target: Target, policy: Policy) -> list[Choice]:
    """Every job of a program that has an anchor and a kernel, once each, with its plans."""
    found: dict[str, Choice] = {}
    planner, sensitive = Planner(target, policy), cancellation_sensitive(program)
    for place, step in enumerate(program.body):
        if not isinstance(step, (OpInstr, Stack)) or _carries_functions(step):
            continue
        job = Job.of(step)
        if job.anchor is None or job.is_empty:
            continue
        if job.key not in found:
            plans = planner.plans(step, exact=step in sensitive)
            if not plans:
                continue
            found[job.key] = Choice(job, plans)
        found[job.key].places.append(place)
    return list(found.values())


def _carries_functions(step: OpInstr | Stack) -> bool:
    return isinstance(step, OpInstr) and bool(step.bodies)


def measure(
    plan: PlanProgram,
    choices: Sequence[Choice],
    target: Target,
    policy: Policy,
    *,
    threads: int | None,
    seconds: float,
    compiled: Compile,
) -> None:
    """Try the plans of all choices, turn by turn, for about so many seconds.

    One program has the first plan of every job, the next one the second, and so on.
    """
    rounds = [_Round(picks, plan(replace(policy, picks=picks))) for picks in _picks(choices)]
    for each in rounds:
        each.prepare(target, threads, compiled)
    end = perf_counter() + seconds
    runs = 0
    while runs < LEAST_RUNS or perf_counter() < end:
        for each in rounds:
            each.timer.run()
        runs += 1
    for choice in choices:
        for each in rounds:
            if choice.job.key in each.picks:
                spent = each.seconds_of(choice.job.key)
                choice.seconds[each.picks[choice.job.key]] = spent


class _Round:
    """A program in which each job follows one of its plans."""

    def __init__(self, picks: Mapping[str, str], program: Program) -> None:
        self.picks = picks
        self.program = program

    def prepare(self, target: Target, threads: int | None, compiled: Compile) -> None:
        """Build it, so that each instruction is timed by itself."""
        native = build(self.program, target, compiled, apart=True, unchecked=True)
        self.timer = StepTimer(native, made_inputs(self.program), threads)
        self.places: dict[str, list[int]] = {}
        for place, step in enumerate(self.program.body):
            if isinstance(step, (OpInstr, Stack)):
                self.places.setdefault(Job.of(step).key, []).append(place)

    def seconds_of(self, key: str) -> float:
        """The time of a job, where it was fastest."""
        return min(self.timer.best.get(place, math.inf) for place in self.places[key])


def _picks(choices: Sequence[Choice]) -> Iterator[Mapping[str, str]]:
    """For each turn, the variant that each job is done by."""
    most = max((len(choice.plans) for choice in choices), default=0)
    for turn in range(min(most, MOST_TRIED)):
        yield {
            choice.job.key: choice.plans[turn].variant
            for choice in choices
            if turn < len(choice.plans)
        }


def made_inputs(program: Program) -> list[Array]:
    """Arrays to try a program on: small numbers, since integers may be places."""
    random = np.random.default_rng(0)
    return [_made(buffer.type, random) for buffer in program.inputs]


def _made(type: TensorType, random: np.random.Generator) -> Array:
    if type.dtype is string:
        return np.full(type.shape, "text", object)
    is_integer = type.dtype.is_integer
    values = random.integers(0, 2, type.shape) if is_integer else random.random(type.shape)
    return np.asarray(values).astype(type.dtype.numpy)
