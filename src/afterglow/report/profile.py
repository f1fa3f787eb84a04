"""Profile of a program: the time of each instruction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from afterglow.backends.cpu.build import build
from afterglow.backends.cpu.codegen import as_step, kernel_name
from afterglow.backends.cpu.compile import Compile, compile_module
from afterglow.backends.cpu.job import Job
from afterglow.backends.cpu.step_times import StepTimer
from afterglow.backends.cpu.target import Target
from afterglow.instr import OpInstr, Program
from afterglow.memory.timeline import origin_of, work_of
from afterglow.report.flops import step_bytes, step_flops
from afterglow.runtime.native.artefact import Host
from afterglow.types import Array


@dataclass(frozen=True)
class StepTime:
    """The time of an instruction: its position, kernel, operands, and fastest run."""

    place: int
    kernel: str
    origin: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    seconds: float
    flops: float
    bytes: int
    on_host: bool

    @property
    def gflops(self) -> float:
        """Billions of operations per second."""
        return self.flops / self.seconds / 1e9 if self.seconds else 0.0

    @property
    def bandwidth(self) -> float:
        """Billions of bytes per second, each buffer counted once."""
        return self.bytes / self.seconds / 1e9 if self.seconds else 0.0


def profile(
    program: Program,
    inputs: Sequence[Array],
    target: Target,
    threads: int | None = None,
    repeat: int = 20,
    compiled: Compile = compile_module,
    *,
    unchecked: bool = False,
) -> list[StepTime]:
    """Run a planned program `repeat` times; the time of each instruction, in program order."""
    artefact = build(program, target, compiled, apart=True, unchecked=unchecked)
    timer = StepTimer(artefact, inputs, threads)
    for _ in range(repeat):
        timer.run()
    on_host = {part.index for part in artefact.parts if isinstance(part, Host)}
    return [
        _describe(program, place, seconds, on_host=place in on_host)
        for place, seconds in sorted(timer.best.items())
    ]


def _describe(program: Program, place: int, seconds: float, *, on_host: bool) -> StepTime:
    instruction = program.body[place]
    step = as_step(instruction)
    no_kernel = on_host or (isinstance(step, OpInstr) and bool(step.bodies))
    anchor = None if step is None else _main_op(Job.of(step))
    return StepTime(
        place=place,
        kernel=work_of(instruction) if step is None or no_kernel else kernel_name(step),
        origin=origin_of(instruction),
        operands=() if anchor is None else tuple(str(b.type) for b in anchor.ins if b is not None),
        results=() if anchor is None else tuple(str(b.type) for b in anchor.outs),
        seconds=seconds,
        flops=step_flops(instruction),
        bytes=step_bytes(instruction),
        on_host=on_host,
    )


def _main_op(job: Job) -> OpInstr:
    return job.anchor or job.after[0]
