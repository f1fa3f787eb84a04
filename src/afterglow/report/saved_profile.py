"""Profile of a compiled model: the time of each step of its code."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

from afterglow.report.profile import Profile, StepTime
from afterglow.runtime import CompiledFunction
from afterglow.runtime.device import TimesSteps
from afterglow.support.errors import UsageError
from afterglow.types import Array


def profile_saved(compiled: CompiledFunction, inputs: Sequence[Array], repeat: int) -> Profile:
    """Run a program some times on one thread, and time each step, in turns with whole runs."""
    executable = compiled.executable
    if not isinstance(executable, TimesSteps):
        raise UsageError(
            "the device of this model times no steps", help="compile it with the default backend"
        )
    steps = executable.steps()
    runs, wholes = [], []
    for _ in range(repeat):
        started = perf_counter()
        executable.run(inputs, compiled.states)
        wholes.append(perf_counter() - started)
        runs.append(executable.time_steps(inputs, compiled.states))
    times = (
        StepTime(place, step.kernel, "", step.origins, (), (), seconds, 0.0, 0, step.on_host)
        for place, (step, seconds) in enumerate(zip(steps, min(runs, key=sum), strict=True))
    )
    return Profile(tuple(times), min(wholes))
