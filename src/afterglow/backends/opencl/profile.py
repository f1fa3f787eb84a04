"""Where the time of a run goes: each kernel timed by the device itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from afterglow.backends.capabilities import StepSeconds
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
) -> list[StepSeconds]:
    """Run a program some times; its instructions in order, with the seconds of the best run."""
    held = {name: OpenClBuffer(state.type, state.array) for name, state in states.items()}
    runs = [executable.time_steps(inputs, held) for _ in range(repeat)]
    parts = executable.artifact.manifest["parts"]
    found = []
    for part, name, seconds in zip(parts, executable.steps(), np.min(runs, axis=0), strict=True):
        place = part["host"] if name.on_host else part["place"]
        anchor = _main_op(program.body[place])
        found.append(StepSeconds(place, name.kernel, anchor, float(seconds), name.on_host))
    return found


def _main_op(step: Instr) -> OpInstr | None:
    if not isinstance(step, (OpInstr, Stack)):
        return None
    job = Job.of(step)
    return job.anchor or job.after[0]
