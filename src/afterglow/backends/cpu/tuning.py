"""Choosing between the ways in which kernels can be written, by trying them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np

from afterglow.backends.cpu.build import build
from afterglow.backends.cpu.candidate import Candidate
from afterglow.backends.cpu.codegen import as_step, jobs_of
from afterglow.backends.cpu.compile import Compile
from afterglow.backends.cpu.job import Job
from afterglow.backends.cpu.magnified import magnified
from afterglow.backends.cpu.step_times import StepTimer
from afterglow.backends.cpu.table import ENTRIES
from afterglow.backends.cpu.target import Target
from afterglow.backends.policy import Policy
from afterglow.instr import Program
from afterglow.types import Array, TensorType
from afterglow.types.dtype import string

MOST_TRIED = 4
"""Candidates of a job that are tried: those with the least estimates."""
LEAST_RUNS = 3
"""Runs of each candidate, however little time there is."""
LEAST_GAIN = 1.03
"""How much faster another candidate must be than the estimated best, lest noise decides."""


@dataclass
class Choice:
    """A job that can be done in several ways, and where in the program it is done.

    The first candidate is the one that is estimated to be the fastest. `seconds` are of those that
    were tried, by name.
    """

    job: Job
    candidates: Sequence[Candidate]
    places: list[int] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def best(self) -> str:
        """The candidate that was fastest when tried, if any was, and if that is no noise."""
        estimated = self.candidates[0].name
        if not self.seconds:
            return estimated
        name = min(self.seconds, key=self.seconds.__getitem__)
        gain = self.seconds.get(estimated, math.inf) / self.seconds[name]
        return name if gain >= LEAST_GAIN else estimated


def choices_of(program: Program, target: Target, policy: Policy) -> list[Choice]:
    """Every job of a program whose kernel says in which ways it can be written, once each."""
    found: dict[str, Choice] = {}
    exact = magnified(jobs_of(program))
    for place, instruction in enumerate(program.body):
        step = as_step(instruction)
        job = None if step is None else Job.of(step)
        if job is None or job.anchor is None or job.is_empty:
            continue
        entry = ENTRIES.get(type(job.anchor.op))
        if entry is None or entry.candidates is None or not entry.accepts(job.anchor):
            continue
        if job.key not in found:
            own = policy.for_job(is_exact=job.key in exact)
            candidates = entry.candidates(job.anchor, target, own)
            found[job.key] = Choice(job, candidates)
        found[job.key].places.append(place)
    return list(found.values())


def measure(
    program: Program,
    choices: Sequence[Choice],
    target: Target,
    policy: Policy,
    *,
    inputs: Sequence[Array],
    threads: int | None,
    seconds: float,
    compiled: Compile,
) -> None:
    """Try the candidates of all choices, turn by turn, for about so many seconds.

    One build has the first candidate of every job, the next one the second, and so on.
    """
    rounds = [dict(picks) for picks in _picks(choices)]
    timers = [
        StepTimer(
            build(
                program,
                target,
                compiled,
                apart=True,
                policy=replace(policy, picks=picks, unchecked=True),
            ),
            inputs,
            threads,
        )
        for picks in rounds
    ]
    end = perf_counter() + seconds
    runs = 0
    while runs < LEAST_RUNS or perf_counter() < end:
        for timer in timers:
            timer.run()
        runs += 1
    for choice in choices:
        for picks, timer in zip(rounds, timers, strict=True):
            if choice.job.key in picks:
                spent = min(timer.best[place] for place in choice.places)
                choice.seconds[picks[choice.job.key]] = spent


def _picks(choices: Sequence[Choice]) -> Iterator[Mapping[str, str]]:
    """For each turn, the name of the candidate that each job is done by."""
    most = max((len(choice.candidates) for choice in choices), default=0)
    for turn in range(min(most, MOST_TRIED)):
        yield {
            choice.job.key: choice.candidates[turn].name
            for choice in choices
            if turn < len(choice.candidates)
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
