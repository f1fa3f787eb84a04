"""Profile of a program: the time of each instruction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from afterglow.backends.capabilities import Profiling, StepSeconds
from afterglow.graph import Origins
from afterglow.instr import Instr, Program, interface_of, origins_of
from afterglow.instr.bind import bind_program
from afterglow.ops.flops import step_bytes, step_flops
from afterglow.runtime.device import LoadOptions
from afterglow.runtime.extents import ExtentReader
from afterglow.runtime.growth import filled_states
from afterglow.types import Array
from afterglow.types.extent import Extents


@dataclass(frozen=True)
class StepTime:
    """The time of an instruction: its position, kernel, operands, and fastest run."""

    place: int
    kernel: str
    origins: Origins
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
    states: Mapping[str, Array] | None = None,
) -> list[StepTime]:
    """Run a planned program some times, and time each instruction; in the program's order.

    Types, operations and bytes are those at the extents of the inputs and of what states hold,
    by name, before each run.
    """
    interface = interface_of(program)
    held = filled_states(interface, states or {})
    timed = backend.profile(program, inputs, held, options, repeat)
    extents = ExtentReader.of(interface).read(inputs, held)
    bound = bind_program(program, extents)
    return [_described(bound.body[step.place], step, extents) for step in timed]


def _described(instruction: Instr, step: StepSeconds, extents: Extents) -> StepTime:
    anchor = step.anchor
    ins = () if anchor is None else tuple(b.type for b in anchor.ins if b is not None)
    outs = () if anchor is None else tuple(b.type for b in anchor.outs)
    return StepTime(
        place=step.place,
        kernel=step.kernel,
        origins=origins_of(instruction),
        operands=tuple(str(type.bind(extents)) for type in ins),
        results=tuple(str(type.bind(extents)) for type in outs),
        seconds=step.seconds,
        flops=step_flops(instruction),
        bytes=step_bytes(instruction),
        on_host=step.on_host,
    )
