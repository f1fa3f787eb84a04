"""Profile of a compiled model: the time of each step of its code."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterglow.report.profile import StepTime
from afterglow.runtime import CompiledFunction
from afterglow.runtime.device import TimesSteps
from afterglow.support.errors import UsageError
from afterglow.types import Array


def profile_saved(
    compiled: CompiledFunction, inputs: Sequence[Array], repeat: int
) -> list[StepTime]:
    """Run a program some times on one thread, and time each step; in the program's order."""
    executable = compiled.executable
    if not isinstance(executable, TimesSteps):
        raise UsageError(
            "the device of this model times no steps", help="compile it with the default backend"
        )
    steps = executable.steps()
    best = np.full(len(steps), np.inf)
    for _ in range(repeat):
        best = np.minimum(best, executable.time_steps(inputs, compiled.states))
    return [
        StepTime(place, step.kernel, step.origins, (), (), float(seconds), 0.0, 0, step.on_host)
        for place, (step, seconds) in enumerate(zip(steps, best, strict=True))
    ]
