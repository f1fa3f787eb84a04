"""Profile of a program: the time of each instruction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from afterglow.backends.capabilities import Profiling, StepSeconds
from afterglow.instr import Program
from afterglow.memory.timeline import origin_of
from afterglow.report.flops import step_bytes, step_flops
from afterglow.runtime.device import LoadOptions
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
    backend: Profiling,
    program: Program,
    inputs: Sequence[Array],
    options: LoadOptions,
    repeat: int = 20,
) -> list[StepTime]:
    """Run a planned program some times, and time each instruction; in the program's order."""
    timed = backend.profile(program, inputs, options, repeat)
    return [_described(program, step) for step in timed]


def _described(program: Program, step: StepSeconds) -> StepTime:
    instruction, anchor = program.body[step.place], step.anchor
    return StepTime(
        place=step.place,
        kernel=step.kernel,
        origin=origin_of(instruction),
        operands=() if anchor is None else tuple(str(b.type) for b in anchor.ins if b is not None),
        results=() if anchor is None else tuple(str(b.type) for b in anchor.outs),
        seconds=step.seconds,
        flops=step_flops(instruction),
        bytes=step_bytes(instruction),
        on_host=step.on_host,
    )
