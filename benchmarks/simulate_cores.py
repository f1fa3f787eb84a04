"""Predict how a model's time falls with threads, on more cores than this machine has.

    python -m benchmarks.simulate_cores MODEL.onnx… [--threads 4,8,16,64] [--slow 0.5,0.5,0.7]
        [--shape INPUT=1,3,32,32] [--steps] [--runs N] [--estimated]

Each step of a model is timed on one thread. A team of threads then takes its chunks in simulated
time as the pool does: those of the own share, then those of others, then it waits for all. Cores
may be slow (`--slow`, speeds of the last of each 16), a step ends with a barrier, and a chunk costs
its hand-over. Caches and the bandwidth of memory are left out, so times are those at best.
`--steps` lists the steps with fewer chunks than the most threads, and their part of the time;
`--estimated` takes the work that kernels state instead of measured times.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

from afterglow.backends.cpu.backend import Cpu
from afterglow.backends.cpu.codegen.build import build
from afterglow.backends.cpu.codegen.calls import Call
from afterglow.backends.cpu.codegen.generate import generate
from afterglow.backends.cpu.codegen.steps import Step
from afterglow.backends.cpu.micro.cost import BARRIER, FLOPS_A_SECOND, HAND_OVER
from afterglow.backends.cpu.tools.recorded import RecordingExecutable
from afterglow.backends.sample_inputs import sample_inputs
from afterglow.driver.environment import cache_folder
from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from afterglow.instr import Instr, OpInstr, Program, Stack, interface_of, ops_of
from afterglow.runtime.growth import full_states
from afterglow.runtime.native.convention import CHUNKS_OF_THREAD, MOST_CHUNKS, MOST_SHARES
from afterglow.types.extent import largest
from benchmarks.estimates import parse_shapes, plan_model
from benchmarks.markdown import milliseconds, table

GROUP = 16
"""Cores of which some may be slow; more cores are more such groups."""


@dataclass(frozen=True)
class TimedLane:
    """What runs beside other lanes of a step: its units, its parts, its seconds on one thread."""

    units: int
    parts: int
    seconds: float

    def seconds_of(self, begin: int, end: int) -> float:
        """Seconds of the units that begin in a range of its parts."""
        first, last = (-(-bound * self.units // self.parts) for bound in (begin, end))
        return (last - first) * self.seconds / self.units


@dataclass(frozen=True)
class TimedStep:
    """A step of a model: its first instruction, its lanes and its division."""

    name: str
    lanes: tuple[TimedLane, ...]
    chunks: int

    @property
    def units(self) -> int:
        """Those of all lanes."""
        return sum(lane.units for lane in self.lanes)

    @property
    def seconds(self) -> float:
        """Its seconds on one thread."""
        return sum(lane.seconds for lane in self.lanes)

    def chunk_seconds(self, chunks: int) -> list[float]:
        """The seconds of each chunk, if it is cut into so many."""
        parts = sum(lane.parts for lane in self.lanes)
        bounds = [number * parts // chunks for number in range(chunks + 1)]
        seconds, first = [0.0] * chunks, 0
        for lane in self.lanes:
            inside = [min(max(bound - first, 0), lane.parts) for bound in bounds]
            for chunk, ends in enumerate(pairwise(inside)):
                seconds[chunk] += lane.seconds_of(*ends)
            first += lane.parts
        return seconds


def timed_steps(program: Program, backend: Cpu, runs: int) -> list[TimedStep]:
    """The steps of a program, each with its fastest time in some runs; 0 runs: by stated work."""
    seconds = _call_seconds(program, backend, runs)
    found = []
    for segment in generate(program, backend.target).segments:
        for step, origins in zip(segment.steps, segment.origins_of_steps, strict=True):
            calls = iter(zip(origins, step.calls, strict=True))
            lanes = [
                sum(seconds[_key(*next(calls))] for _ in range(len(lane))) for lane in step.lanes
            ]
            name = f"{_name(origins[0])} {step.calls[0].function.symbol}"
            found.append(TimedStep(name, _timed_lanes(step, lanes), step.chunks))
    return found


def _timed_lanes(step: Step, seconds: Sequence[float]) -> tuple[TimedLane, ...]:
    """The lanes of a step with their seconds; those of one without chunks are one unit."""
    if step.chunks == 1:
        return (TimedLane(1, 1, sum(seconds)),)
    shared = [lane[0] if lane[0].chunks > 1 else None for lane in step.lanes]
    units = [1 if call is None else largest(call.function.units) for call in shared]
    parts = step.parts if len(units) > 1 else units
    return tuple(map(TimedLane, units, parts, seconds))


def _call_seconds(program: Program, backend: Cpu, runs: int) -> dict[Hashable, float]:
    """The seconds of each call, in the fastest of some runs of its step; 0 runs: by its work."""
    generated = generate(program, backend.target, by_instruction=True)
    segments = generated.segments
    steps = [step for segment in segments for step in segment.steps]
    origins = [each for segment in segments for each in segment.origins_of_steps]
    seconds = [float(step.work) / FLOPS_A_SECOND for step in steps]
    if runs:
        executable = RecordingExecutable(
            build(program, backend.target, backend.compiled, by_instruction=True), 1
        )
        inputs, states = sample_inputs(program), full_states(interface_of(program))
        seconds = [math.inf] * len(steps)
        for _ in range(runs):
            executable.record(inputs, states)
            native = [span for span in executable.spans if span.begin != span.share_end]
            times = [span.end - span.begin for span in native]
            seconds = [*map(min, seconds, times)]
    return {
        _key(origin, call): time * _part(call, step)
        for step, own, time in zip(steps, origins, seconds, strict=True)
        for origin, call in zip(own, step.calls, strict=True)
    }


def _key(origin: Instr, call: Call) -> Hashable:
    """What a call has in common with itself in other code of the same program."""
    return id(origin), call.function.symbol, call.arguments, call.guards


def _part(call: Call, step: Step) -> float:
    """The part of a step's work that a call is."""
    total = sum(float(each.function.work) for each in step.calls)
    return float(call.function.work) / total if total else 1 / len(step.calls)


def _name(instruction: Instr) -> str:
    """What an instruction does, and by which plan."""
    plan = instruction.plan if isinstance(instruction, (OpInstr, Stack)) else None
    shape = next((b.type for access, b in instruction.accesses() if access.writes), "")
    members = [op.op.mnemonic for op in ops_of(instruction)]
    return " ".join(map(str, (*members[:2], shape, plan.variant if plan else "")))


def simulate(steps: Sequence[TimedStep], speeds: Sequence[float]) -> float:
    """Seconds of a run by threads on cores of given speeds: 1 is that of the measured one."""
    if len(speeds) == 1:
        return sum(step.seconds for step in steps) / speeds[0]
    return sum(step_seconds(step, speeds) for step in steps)


def step_seconds(step: TimedStep, speeds: Sequence[float]) -> float:
    """Seconds until all chunks of a step are done, and all threads know."""
    shares = min(len(speeds), MOST_SHARES)
    chunks = _fewer(step.chunks, shares, len(speeds))
    barrier = BARRIER * math.log2(len(speeds))
    bounds = [(share * chunks // shares, (share + 1) * chunks // shares) for share in range(shares)]
    left = [list(range(first, end)) for first, end in bounds]
    seconds = step.chunk_seconds(chunks)
    clocks = [(0.0, thread) for thread in range(len(speeds))]
    heapify(clocks)
    last = 0.0
    while clocks:
        now, thread = heappop(clocks)
        last = max(last, now)
        own = ((thread + place) % shares for place in range(shares))
        share = next((share for share in own if left[share]), None)
        if share is None:
            continue
        chunk = left[share].pop(0)
        heappush(clocks, (now + HAND_OVER + seconds[chunk] / speeds[thread], thread))
    return last + barrier


def _fewer(chunks: int, shares: int, threads: int) -> int:
    """As many chunks as a team of so many threads makes of a step's: see `threads/team.py`."""
    most = min(threads * CHUNKS_OF_THREAD, MOST_CHUNKS)
    while chunks > most and chunks % (2 * shares) == 0:
        chunks //= 2
    return most if chunks > 2 * most else chunks


def narrow_table(steps: Sequence[TimedStep], threads: int) -> str:
    """The steps with fewer units than threads that take part of the time, the longest first."""
    total = sum(step.seconds for step in steps)
    few = sorted((s for s in steps if s.chunks < threads), key=lambda s: -s.seconds)
    rows = [
        (
            step.name[:110],
            str(step.units),
            str(step.chunks),
            f"{step.seconds * 1e6:.0f}",
            f"{100 * step.seconds / total:.1f}",
        )
        for step in few
        if step.seconds > total / 1000
    ]
    part = sum(step.seconds for step in few) / total
    head = ("step", "units", "chunks", "µs", "%")
    return f"{table(head, rows)}\n\n{100 * part:.0f} % of the time is in steps of fewer chunks"


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--threads", default="1,2,4,8,16,64", help="Numbers of threads.")
@click.option("--slow", default="", help="Speeds of the slow of each 16 cores.")
@click.option("--shape", "shapes", multiple=True, help="INPUT=1,3,32,32")
@click.option("--target", default="host")
@click.option("--runs", default=15, help="Runs of which the fastest time of each step counts.")
@click.option("--estimated", is_flag=True, help="Do not run; take the work that kernels state.")
@click.option("--steps", "listed", is_flag=True, help="List the steps with too few units.")
def main(paths: tuple[Path, ...], threads: str, slow: str, **asked: Any) -> None:
    """Print the tables."""
    teams = [*map(int, threads.split(","))]
    speeds = [float(speed) for speed in slow.split(",") if speed]
    group = [1.0] * (GROUP - len(speeds)) + speeds
    rows = []
    for path in paths:
        shapes = parse_shapes(asked["shapes"])
        options = Options(shapes=shapes, target=asked["target"], cache=cache_folder(True))
        stages = Stages(options)
        assert isinstance(stages.backend, Cpu)
        program = plan_model(path, stages)
        steps = timed_steps(program, stages.backend, 0 if asked["estimated"] else asked["runs"])
        alone = sum(step.seconds for step in steps)
        cells = []
        for count in teams:
            seconds = simulate(steps, [group[core % GROUP] for core in range(count)])
            cells.append(f"{milliseconds(seconds)} ({alone / seconds / count:.2f})")
        rows.append((path.stem, *cells))
        if asked["listed"]:
            click.echo(f"{path.stem}: {len(steps)} steps\n{narrow_table(steps, max(teams))}\n")
    head = ("model", *(f"{n} threads, ms (efficiency)" for n in teams))
    click.echo(table(head, rows))


if __name__ == "__main__":
    main()
