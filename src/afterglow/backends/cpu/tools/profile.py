"""Where the time of a run goes: each instruction of a program timed by itself."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from time import perf_counter

from afterglow.backends.capabilities import ProgramProfile, StepSeconds, StepSpan
from afterglow.backends.cpu.codegen.generate import as_step, kernel_name
from afterglow.backends.cpu.tools.recorded import RecordingExecutable
from afterglow.backends.job import Job
from afterglow.instr import OpInstr, Program
from afterglow.memory.timeline import work_of
from afterglow.runtime.buffers import HostBuffer
from afterglow.runtime.native.executable import NativeExecutable
from afterglow.runtime.native.program import Host
from afterglow.types import Array

TURN = 5
"""Runs of a turn."""


def profile(
    recorded: RecordingExecutable,
    whole: NativeExecutable,
    program: Program,
    inputs: Sequence[Array],
    states: Mapping[str, HostBuffer],
    repeat: int,
) -> ProgramProfile:
    """Run a program some times with a record of its steps, in turns with runs without one.

    A turn is several runs: the threads of the other pool still look for work when it begins.
    """
    fastest, spans, run_seconds = math.inf, [], math.inf
    for done in range(0, repeat, TURN):
        runs = min(TURN, repeat - done)
        for _ in range(runs):
            run_seconds = min(run_seconds, _seconds_of_run(whole, inputs, states))
        for _ in range(runs):
            seconds = recorded.record(inputs, states)
            if seconds < fastest:
                fastest, spans = seconds, recorded.spans
    on_host = {part.index for part in recorded.native.parts if isinstance(part, Host)}
    steps = (
        _described(program, place, seconds, on_host=place in on_host)
        for place, seconds in sorted(_seconds(spans).items())
    )
    return ProgramProfile(tuple(steps), tuple(spans), run_seconds)


def _seconds_of_run(
    executable: NativeExecutable, inputs: Sequence[Array], states: Mapping[str, HostBuffer]
) -> float:
    started = perf_counter()
    executable.run(inputs, states)
    return perf_counter() - started


def _seconds(spans: Iterable[StepSpan]) -> dict[int, float]:
    """Of each instruction, from the first begin of its steps to their last end, summed.

    The calling thread, number 0, takes part in every step, and leaves it when it is done.
    """
    found: dict[int, float] = {}
    for span in spans:
        if span.thread == 0:
            found[span.place] = found.get(span.place, 0.0) + span.end - span.begin
    return found


def _described(program: Program, place: int, seconds: float, *, on_host: bool) -> StepSeconds:
    instruction = program.body[place]
    step = as_step(instruction)
    no_kernel = on_host or (isinstance(step, OpInstr) and bool(step.bodies))
    kernel = work_of(instruction) if step is None or no_kernel else kernel_name(step)
    return StepSeconds(
        place, kernel, None if step is None else _main_op(Job.of(step)), seconds, on_host
    )


def _main_op(job: Job) -> OpInstr:
    return job.anchor or job.after[0]
