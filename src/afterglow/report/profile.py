"""Profile of a program: the time of each instruction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from afterglow.backends.capabilities import Profiling, StepSeconds, StepSpan
from afterglow.graph import Origins
from afterglow.graph.origins import joined_origins
from afterglow.instr import Instr, OpInstr, Program, Stack, interface_of, origins_of
from afterglow.instr.bind import bind_program
from afterglow.ops.flops import step_bytes, step_flops
from afterglow.runtime.device import LoadOptions
from afterglow.runtime.extents import ExtentReader
from afterglow.runtime.growth import filled_states
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array
from afterglow.types.extent import Extents


@dataclass(frozen=True)
class StepTime:
    """The time of an instruction: its position, kernel, operands, and fastest run."""

    place: int
    kernel: str
    plan: str
    """The algorithm of the kernel; empty if it has no choice."""
    origins: Origins
    operands: tuple[str, ...]
    results: tuple[str, ...]
    seconds: float
    flops: float
    bytes: int
    on_host: bool
    others: tuple[int, ...] = ()
    """The positions of instructions that run at the same time, as part of the same launch."""

    @property
    def gflops(self) -> float:
        """Billions of operations per second."""
        return self.flops / self.seconds / 1e9 if self.seconds else 0.0

    @property
    def bandwidth(self) -> float:
        """Billions of bytes per second, each buffer counted once."""
        return self.bytes / self.seconds / 1e9 if self.seconds else 0.0


@dataclass(frozen=True)
class Profile:
    """Where the time of a run goes: the instructions of the fastest profiled run."""

    steps: tuple[StepTime, ...]
    """In the program's order."""
    run_seconds: float
    """The fastest run as a whole, without a profile."""
    spans: tuple[StepSpan, ...] = ()
    """What each thread did, if the backend tells."""

    @property
    def seconds(self) -> float:
        """The sum of all instructions."""
        return sum(step.seconds for step in self.steps)

    @property
    def between_seconds(self) -> float:
        """What the run takes besides: calls, and waiting for threads between kernels."""
        return self.run_seconds - self.seconds


def profile(
    backend: Profiling,
    program: Program,
    inputs: Sequence[Array],
    options: LoadOptions,
    repeat: int = 20,
    states: Mapping[str, Array] | None = None,
) -> Profile:
    """Run a planned program some times, and time each instruction.

    Types, operations and bytes are those at the extents of the inputs and of what states hold,
    by name, before each run.
    """
    interface = interface_of(program)
    held = filled_states(interface, states or {})
    timed = backend.profile(program, inputs, held, options, repeat)
    extents = ExtentReader.of(interface).read(inputs, held)
    bound = bind_program(program, extents)
    steps = [_described(bound, step, extents) for step in timed.steps]
    return Profile(tuple(steps), timed.run_seconds, timed.spans)


def _described(program: Program, step: StepSeconds, extents: Extents) -> StepTime:
    anchor = step.anchor
    together = [program.body[place] for place in (step.place, *step.others)]
    ins = () if anchor is None else tuple(b.type for b in anchor.ins if b is not None)
    outs = () if anchor is None else tuple(b.type for b in anchor.outs)
    return StepTime(
        place=step.place,
        kernel=step.kernel,
        plan=_algorithm(together[0]),
        origins=joined_origins(map(origins_of, together)),
        operands=tuple(str(type.bind(extents)) for type in ins),
        results=tuple(str(type.bind(extents)) for type in outs),
        seconds=step.seconds,
        flops=sum(map(step_flops, together)),
        bytes=sum(map(step_bytes, together)),
        on_host=step.on_host,
        others=step.others,
    )


def _algorithm(instruction: Instr) -> str:
    plan = instruction.plan if isinstance(instruction, (OpInstr, Stack)) else None
    return "" if plan is None else plan.algorithm
