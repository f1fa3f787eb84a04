"""How long the steps of a planned program take on a device, measured rather than estimated."""

from __future__ import annotations

from time import perf_counter

from afterglow.backends.capabilities import Profiling
from afterglow.backends.sample_inputs import sample_inputs
from afterglow.instr import Program, interface_of
from afterglow.runtime.device import LoadOptions
from afterglow.runtime.growth import full_states

LEAST_RUNS = 3
MOST_RUNS = 1000


def measure_steps(
    backend: Profiling, program: Program, options: LoadOptions, seconds: float
) -> list[float]:
    """Seconds of each instruction of a planned program, in its order, as `estimate_steps` gives.

    The program is run for about some seconds, and each instruction's fastest run counts.
    """
    started = perf_counter()
    best = _profiled(backend, program, options, LEAST_RUNS)
    spent = perf_counter() - started
    runs = int(LEAST_RUNS * (seconds - spent) / max(sum(best), spent / MOST_RUNS))
    if runs > LEAST_RUNS:
        more = _profiled(backend, program, options, min(runs // LEAST_RUNS, MOST_RUNS))
        best = [*map(min, best, more)]
    return best


def _profiled(backend: Profiling, program: Program, options: LoadOptions, runs: int) -> list[float]:
    states = full_states(interface_of(program))
    timed = backend.profile(program, sample_inputs(program), states, options, runs)
    seconds: dict[int, float] = {}
    for step in timed.steps:
        places = (step.place, *step.others)
        for place in places:  # a scan's are those of all its iterations
            seconds[place] = seconds.get(place, 0.0) + step.seconds / len(places)
    return [seconds.get(place, 0.0) for place in range(len(program.body))]
