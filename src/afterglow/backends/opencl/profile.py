"""Where the time of a run goes: each kernel timed by the device itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter

from afterglow.backends.capabilities import ProgramProfile, StepSeconds
from afterglow.backends.job import Job
from afterglow.backends.opencl.executable import OpenClExecutable
from afterglow.backends.opencl.memory import OpenClBuffer
from afterglow.instr import Instr, OpInstr, Program, Stack
from afterglow.runtime.buffers import HostBuffer
from afterglow.types import Array


def profile(
    executable: OpenClExecutable,
    program: Program,
    inputs: Sequence[Array],
    states: Mapping[str, HostBuffer],
    repeat: int,
) -> ProgramProfile:
    """Run a program some times, each kernel timed, in turns with runs as a whole."""
    held = {name: OpenClBuffer(state.type, state.array) for name, state in states.items()}
    runs, wholes = [], []
    for _ in range(repeat):
        started = perf_counter()
        executable.run(inputs, held)
        wholes.append(perf_counter() - started)
        runs.append(executable.time_steps(inputs, held))
    parts = executable.artifact.manifest["parts"]
    found = []
    for part, name, seconds in zip(parts, executable.steps(), min(runs, key=sum), strict=True):
        place = part["host"] if name.on_host else part["place"]
        anchor = _main_op(program.body[place])
        found.append(StepSeconds(place, name.kernel, anchor, seconds, name.on_host))
    return ProgramProfile(tuple(found), (), min(wholes))


def _main_op(step: Instr) -> OpInstr | None:
    if not isinstance(step, (OpInstr, Stack)):
        return None
    job = Job.of(step)
    return job.anchor or job.after[0]
