"""Where the time of a run goes: each instruction of a program timed by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from afterglow.backends.capabilities import StepSeconds
from afterglow.backends.cpu.codegen.generate import as_step, kernel_name
from afterglow.backends.cpu.tools.step_times import StepTimer
from afterglow.backends.job import Job
from afterglow.instr import OpInstr, Program
from afterglow.memory.timeline import work_of
from afterglow.runtime.buffers import HostBuffer
from afterglow.runtime.device import LoadOptions
from afterglow.runtime.native.program import Host, NativeProgram
from afterglow.types import Array


def profile(
    native: NativeProgram,
    program: Program,
    inputs: Sequence[Array],
    states: Mapping[str, HostBuffer],
    options: LoadOptions,
    repeat: int,
) -> list[StepSeconds]:
    """Run a program that was built apart some times; its instructions in order."""
    timer = StepTimer(native, inputs, states, options.threads)
    for _ in range(repeat):
        timer.run()
    on_host = {part.index for part in native.parts if isinstance(part, Host)}
    return [
        _described(program, place, seconds, on_host=place in on_host)
        for place, seconds in sorted(timer.best.items())
    ]


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
