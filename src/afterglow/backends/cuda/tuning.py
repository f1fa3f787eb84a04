"""Choosing between the plans of kernels by running them, each by itself, on the GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import median
from time import perf_counter
from typing import TypeAlias

import numpy as np

from afterglow.backends.backend import KernelCache
from afterglow.backends.capabilities import Choice, PlanProgram
from afterglow.backends.cuda.codegen import generated_for, to_artifact
from afterglow.backends.cuda.compile import Compiled, try_kernels
from afterglow.backends.cuda.device import CudaDevice
from afterglow.backends.cuda.graphs import capture
from afterglow.backends.cuda.kernels.kernel import KernelSource
from afterglow.backends.cuda.launches import begin
from afterglow.backends.cuda.planner import write
from afterglow.backends.cuda.target import CudaTarget
from afterglow.backends.cuda.workspace import Workspace
from afterglow.backends.job import Job
from afterglow.backends.launched.generated import Generated, span_of
from afterglow.backends.policy import Policy
from afterglow.instr import (
    ON_HOST,
    Access,
    Buffer,
    KernelPlan,
    OpInstr,
    Program,
    Region,
    Stack,
)
from afterglow.runtime.native.convention import ALIGNMENT
from afterglow.support.errors import warn
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, TensorType
from afterglow.types.dtype import DType, u8

MOST_TRIED = 24
"""Plans of a kernel that are tried: those with the least estimates."""
LAUNCHES, REPLAYS = 10, 7
"""Launches of a graph that is timed, and how often it is replayed."""
LONGEST = 60.0
"""Seconds that compiling a candidate may take: what takes longer is left out."""
Plans: TypeAlias = Callable[[OpInstr | Stack], Sequence[KernelPlan]]
"""The plans of a step, the best by its estimate first."""
TOLERANCES = {2: 2e-2, 4: 1e-4, 8: 1e-9}
"""How far results may be from those of the first plan, by the bytes of an element."""


def choices_of(program: Program, plans: Plans) -> list[Choice]:
    """Every kernel of a program that has several plans, once each."""
    found: dict[str, Choice] = {}
    for place, step in enumerate(program.body):
        if not isinstance(step, (OpInstr, Stack)):
            continue
        job = Job.of(step)
        if job.anchor is None or job.is_empty or job.anchor.bodies:
            continue
        if job.key not in found:
            several: Sequence[KernelPlan] = plans(step)
            if len(several) < 2 or several[0].algorithm == ON_HOST:
                continue
            found[job.key] = Choice(job.key, job.anchor.op.mnemonic, job.anchor, several)
        found[job.key].places.append(place)
    return [*found.values()]


@dataclass(frozen=True)
class Operand:
    """Bytes of a memory that a step reads or writes, and what they hold."""

    memory: str
    start: int
    size: int
    dtype: DType
    access: Access


@dataclass(frozen=True)
class Candidate:
    """A plan of a kernel that compiled, and which part of the trial's program it is."""

    choice: Choice
    plan: KernelPlan
    operands: tuple[Operand, ...]
    part: int


def measure(
    plan: PlanProgram,
    choices: Sequence[Choice],
    policy: Policy,
    target: CudaTarget,
    cache: KernelCache | None,
    seconds: float,
) -> None:
    """Time the plans of all choices, the first plans of all before the second ones.

    A plan whose results differ from those of the first one is not taken, however fast it is:
    compilers have errors, too. None is begun once the time is over.
    """
    first = {choice.key: choice.plans[0].variant for choice in choices}
    program = plan(replace(policy, variants={**policy.variants, **first}))
    trial = _Trial(program, choices, target, cache)
    end = perf_counter() + seconds
    for candidate in trial.candidates:
        if candidate.plan is not candidate.choice.plans[0] and perf_counter() > end:
            return
        candidate.choice.seconds.update(trial.measured(candidate))


class _Trial:
    """A program whose parts are all candidates, loaded."""

    def __init__(
        self,
        program: Program,
        choices: Sequence[Choice],
        target: CudaTarget,
        cache: KernelCache | None,
    ) -> None:
        generated = generated_for(program, target)
        written = [*_written(program, choices, target)]
        compiled = try_kernels([source for *_, source in written], target, cache, seconds=LONGEST)
        good = {name: each for name, each in compiled.items() if isinstance(each, Compiled)}
        self.candidates: list[Candidate] = []
        for choice, kernel, step, source in written:
            if source.name in good:
                operands = tuple(_operands(generated, step))
                candidate = Candidate(choice, kernel, operands, len(generated.parts))
                self.candidates.append(candidate)
                generated.launch([generated.planned(choice.places[0], step, source)], source)
        artifact = to_artifact(generated, good, target, unchecked=True)
        room = max((_end_of(step) for _, _, step, _ in written), default=0)
        roomy = {**artifact.manifest, "arena_bytes": max(room, program.arena_bytes or 0)}
        self._executable = CudaDevice().load_here(replace(artifact, manifest=roomy))
        self._wanted: dict[str, list[Array]] = {}

    def measured(self, candidate: Candidate) -> dict[str, float]:
        """The seconds of a plan by its variant; nothing if its results are wrong."""
        with self._executable.workspace() as workspace:
            run = _Run(workspace, candidate)
            results = run.results()
            wanted = self._wanted.setdefault(candidate.choice.key, results)
            distance = max(map(_distance, results, wanted), default=0.0)
            if not distance <= run.tolerance:
                warn(
                    f"a kernel of {candidate.choice.kernel} is left out, as its results are wrong "
                    f"by {distance:.1e}: {candidate.plan.variant}"
                )
                return {}
            return {candidate.plan.variant: run.seconds()}


def _written(
    program: Program, choices: Sequence[Choice], target: CudaTarget
) -> Iterator[tuple[Choice, KernelPlan, OpInstr | Stack, KernelSource]]:
    """The kernels of all candidates, the first of each choice first."""
    for number in range(MOST_TRIED):
        for choice in choices:
            if number < len(choice.plans):
                step = program.body[choice.places[0]]
                assert isinstance(step, (OpInstr, Stack))
                planned = _with_plan(step, choice.plans[number], program.arena_bytes or 0)
                yield choice, choice.plans[number], planned, write(planned, target)


def _with_plan(step: OpInstr | Stack, plan: KernelPlan, start: int) -> OpInstr | Stack:
    """A step by another plan, whose workspace lies behind the arena."""
    scratch = []
    for name, size in plan.workspace.items():
        start += -start % ALIGNMENT
        buffer = Buffer(name, TensorType(u8, (size,)), Region.ARENA)
        buffer.address, start = start, start + size
        scratch.append(buffer)
    return replace(step, plan=plan, scratch=tuple(scratch))


def _end_of(step: OpInstr | Stack) -> int:
    return max((b.type.nbytes + (b.address or 0) for b in step.scratch), default=0)


def _operands(generated: Generated[KernelSource], step: OpInstr | Stack) -> Iterator[Operand]:
    """What a step reads and writes besides constants and its workspace."""
    for access, buffer in step.accesses():
        region = buffer.root.region
        if access is Access.SCRATCH or region in (Region.CONSTANT, Region.LOCAL):
            continue
        memory, start = generated.place(buffer)
        below, size = span_of(buffer)
        yield Operand(memory, start - below, size, buffer.type.dtype, access)


class _Run:
    """A candidate on drawn numbers."""

    def __init__(self, workspace: Workspace, candidate: Candidate) -> None:
        self.workspace = workspace
        self.operands = candidate.operands
        launch = workspace.program.launches[candidate.part]
        assert launch is not None
        self.launch = launch
        workspace.addresses = {**workspace.fixed, **workspace.staging.addresses}

    @property
    def tolerance(self) -> float:
        """How far results may differ from those of another plan."""
        written = (each.dtype for each in self.operands if each.access.writes)
        return max((TOLERANCES[t.itemsize] for t in written if t.is_float), default=0.0)

    def results(self) -> list[Array]:
        """What it computes."""
        workspace, rng = self.workspace, np.random.default_rng(0)
        for each in sorted(self.operands, key=lambda operand: operand.access.reads):
            drawn = _drawn(rng, each) if each.access.reads else np.zeros(each.size, np.uint8)
            workspace.send(each.memory, drawn, each.start)
        begin(workspace.session, [self.launch], workspace.addresses, workspace.stream)
        workspace.context.synchronize(workspace.stream)
        return [self._fetched(each) for each in self.operands if each.access.writes]

    def _fetched(self, operand: Operand) -> Array:
        held = np.empty(operand.size, np.uint8)
        self.workspace.fetch(operand.memory, held, operand.start)
        return held.view(operand.dtype.numpy)

    def seconds(self) -> float:
        """The time of a launch among several."""
        workspace, context = self.workspace, self.workspace.context
        launches = [self.launch] * LAUNCHES
        start, end = context.new_event(timed=True), context.new_event(timed=True)

        def run(stream: int) -> None:
            context.record(start, stream)
            begin(workspace.session, launches, workspace.addresses, stream)
            context.record(end, stream)

        graph = capture(workspace.session, workspace.stream, run)
        try:
            found = []
            for _ in range(REPLAYS):
                context.replay(graph, workspace.stream, workspace.turn.event)
                context.synchronize(workspace.stream)
                found.append(context.elapsed(start, end) / LAUNCHES)
            return median(found[1:])
        finally:
            context.free_graph(graph)
            context.free_event(start)
            context.free_event(end)


def _drawn(rng: np.random.Generator, operand: Operand) -> Array:
    """Numbers for an operand, as bytes: floats around zero, bytes, and zeros of all else."""
    dtype, count = operand.dtype, operand.size // operand.dtype.itemsize
    if dtype.is_float:
        return rng.standard_normal(count, np.float32).astype(dtype.numpy).view(np.uint8)
    if dtype.itemsize == 1 and dtype.is_integer:
        return rng.integers(0, 256, count, np.uint8)
    return np.zeros(operand.size, np.uint8)


def _distance(found: Array, wanted: Array) -> float:
    """How far results are from those wanted, relative to these; NaN where one has no number."""
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    norm = float(np.linalg.norm(b))
    return float(np.linalg.norm(a - b)) / (norm or 1.0)
