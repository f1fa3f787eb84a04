"""Choosing between the plans of kernels by trying them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from time import perf_counter

from afterglow.backends.capabilities import Choice, PlanProgram
from afterglow.backends.cpu.codegen.build import build
from afterglow.backends.cpu.codegen.generate import HOST, WHOLE_ON_HOST
from afterglow.backends.cpu.codegen.planner import Planner
from afterglow.backends.cpu.codegen.write import symbol_of
from afterglow.backends.cpu.llvm.compile import Compile
from afterglow.backends.cpu.target import Target
from afterglow.backends.cpu.tools.step_times import StepTimer
from afterglow.backends.job import Job
from afterglow.backends.policy import Policy
from afterglow.backends.sample_inputs import sample_inputs
from afterglow.instr import OpInstr, Program, Stack
from afterglow.memory.cancellation import cancellation_sensitive
from afterglow.runtime.device import LoadOptions
from afterglow.runtime.growth import full_states
from afterglow.support.lazy_dataclass import dataclass

MOST_TRIED = 4
"""Plans of a job that are tried: those with the least estimates."""
LEAST_RUNS = 3
"""Runs of each plan, however little time there is."""


def choices_of(program: Program, planner: Planner) -> list[Choice]:
    """Every kernel of a program that has an anchor, once each, with its plans."""
    found: dict[str, Choice] = {}
    sensitive = cancellation_sensitive(program)
    for place, step in enumerate(program.body):
        if not isinstance(step, (OpInstr, Stack)) or _carries_functions(step):
            continue
        job = Job.of(step)
        if job.anchor is None or job.is_empty:
            continue
        if job.key not in found:
            plans = planner.estimated(step, exact=step in sensitive)
            if not plans or plans[0] in (HOST, WHOLE_ON_HOST):
                continue
            found[job.key] = Choice(job.key, symbol_of(job, plans[0]), job.anchor, plans)
        found[job.key].places.append(place)
    return list(found.values())


def _carries_functions(step: OpInstr | Stack) -> bool:
    return isinstance(step, OpInstr) and bool(step.bodies)


@dataclass(frozen=True)
class Trial:
    """What plans are tried on: code for a target, run by threads of this machine."""

    target: Target
    policy: Policy
    compiled: Compile
    options: LoadOptions

    def measure(self, plan: PlanProgram, choices: Sequence[Choice], seconds: float) -> None:
        """Try the plans of all choices, turn by turn, for about some seconds.

        One program has the first plan of every kernel, the next one the second, and so on.
        """
        policies = (
            (variants, replace(self.policy, variants=variants)) for variants in _variants(choices)
        )
        rounds = [_Round(variants, plan(policy), self) for variants, policy in policies]
        end = perf_counter() + seconds
        runs = 0
        while runs < LEAST_RUNS or perf_counter() < end:
            for each in rounds:
                each.timer.run()
            runs += 1
        for choice in choices:
            for each in rounds:
                if choice.key in each.variants:
                    choice.seconds[each.variants[choice.key]] = each.seconds_of(choice.key)


class _Round:
    """A program in which each job follows one of its plans."""

    def __init__(self, variants: Mapping[str, str], program: Program, trial: Trial) -> None:
        self.variants = variants
        native = build(program, trial.target, trial.compiled, apart=True, unchecked=True)
        states = full_states(native.interface)
        self.timer = StepTimer(native, sample_inputs(program), states, trial.options.threads)
        self.places: dict[str, list[int]] = {}
        for place, step in enumerate(program.body):
            if isinstance(step, (OpInstr, Stack)):
                self.places.setdefault(Job.of(step).key, []).append(place)

    def seconds_of(self, key: str) -> float:
        """The time of a job, where it was fastest."""
        return min(self.timer.best.get(place, math.inf) for place in self.places[key])


def _variants(choices: Sequence[Choice]) -> Iterator[Mapping[str, str]]:
    """For each turn, the variant that each job is done by."""
    most = max((len(choice.plans) for choice in choices), default=0)
    for turn in range(min(most, MOST_TRIED)):
        yield {
            choice.key: choice.plans[turn].variant for choice in choices if turn < len(choice.plans)
        }
