"""Where the time of a run goes: each kernel timed by the device itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Protocol

from afterglow.backends.capabilities import ProgramProfile, StepSeconds
from afterglow.backends.job import Job
from afterglow.instr import Instr, OpInstr, Program, Stack
from afterglow.runtime.artifact import Artifact
from afterglow.runtime.buffers import HostBuffer
from afterglow.runtime.device import DeviceBuffer, Executable, TimesSteps
from afterglow.types import Array, TensorType


class Profiled(Executable, TimesSteps, Protocol):
    """An executable whose artifact lists its parts, of which each can be timed."""

    @property
    def artifact(self) -> Artifact:
        """What was loaded."""


def profile(
    executable: Profiled,
    program: Program,
    inputs: Sequence[Array],
    states: Mapping[str, HostBuffer],
    repeat: int,
    buffer: Callable[[TensorType, Array], DeviceBuffer],
) -> ProgramProfile:
    """Run a program some times, each kernel timed, in turns with runs as a whole.

    `buffer` makes a tensor for states.
    """
    held = {name: buffer(state.type, state.array) for name, state in states.items()}
    runs, wholes = [], []
    for _ in range(repeat):
        started = perf_counter()
        executable.run(inputs, held)
        wholes.append(perf_counter() - started)
        runs.append(executable.time_steps(inputs, held))
    parts = executable.artifact.manifest["parts"]
    found = []
    for part, name, seconds in zip(parts, executable.steps(), min(runs, key=sum), strict=True):
        place, *others = [part["host"]] if name.on_host else part["places"]
        anchor = _main_op(program.body[place])
        found.append(StepSeconds(place, name.kernel, anchor, seconds, name.on_host, tuple(others)))
    return ProgramProfile(tuple(found), (), min(wholes))


def _main_op(step: Instr) -> OpInstr | None:
    if not isinstance(step, (OpInstr, Stack)):
        return None
    job = Job.of(step)
    return job.anchor or job.after[0]
