"""Measuring the rates of a device: small programs are compiled for it and timed on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import TypeAlias

from afterglow.driver.devices import device_of, find_device
from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from afterglow.instr import Program, interface_of
from afterglow.partition.fit import LEAST_SECONDS, TimedProbe, fit_rates
from afterglow.partition.probes import PROBES, TRANSFERS, Probe
from afterglow.runtime.device import (
    Device,
    DeviceBuffer,
    DeviceInfo,
    Executable,
    LoadOptions,
    SeveralDevices,
)
from afterglow.runtime.native.machine import interruptions
from afterglow.runtime.rates import Rates
from afterglow.support.errors import AfterglowError, warn
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Interface, TensorType

Clock: TypeAlias = Callable[[], float]
"""Seconds since some moment."""
Allocate: TypeAlias = Callable[[TensorType], DeviceBuffer]
"""Makes a buffer in the memory of a device."""
OnProbe: TypeAlias = Callable[[int, int], None]
"""Called with the number of programs that are done, and that of all."""

ROUNDS, MOST_ROUNDS = 4, 16
"""How often all programs take turns: others may keep the machine busy for a while. Those that were
faster the last time go on."""
SETTLED = 1.03
"""How much faster the fastest run must be to count as such."""
TURN_SECONDS = 0.008
"""Seconds of each turn, in which a program is run again and again; its fastest run counts."""
MOST_SECONDS = 30.0
"""Seconds after which no more programs are compiled: a device so slow needs no exact rates."""
BUSY = 25.0
"""Times a second that other processes interrupt this one on a machine that is busy."""
LEAST_RUNS = 2
MOST_RUNS = 200


def calibrate(
    options: Options,
    info: DeviceInfo,
    *,
    clock: Clock = perf_counter,
    on_probe: OnProbe | None = None,
) -> Rates:
    """The rates of the device that options name, with as many threads as they say.

    Programs that the backend cannot compile are left out.
    """
    shared = math.isinf(info.transfer_bandwidth)
    device = find_device(device_of(options.backend))
    allocate = None if shared else partial(_allocate, device, info.target)
    stages = Stages(options)
    before, started = interruptions(), perf_counter()
    rates = fit_rates(_timed(stages, allocate, clock, on_probe))
    if interruptions() - before > BUSY * (perf_counter() - started):
        warn(
            f"other processes keep the machine busy: device {info.name!r} may be faster than "
            "measured; run 'afterglow devices --measure' once it is quiet"
        )
    if allocate is None:
        return rates
    small, large = (_transfer(stages, probe, allocate, clock) for probe in TRANSFERS)
    nbytes = TRANSFERS[1].inputs[0].nbytes
    bandwidth = nbytes / max(large - small, LEAST_SECONDS)
    return replace(rates, transfer_seconds=small, transfer_bandwidth=bandwidth)


@dataclass
class _Trial:
    """A compiled program, and the seconds of its fastest run so far."""

    program: Program
    run: Callable[[], object]
    best: float = math.inf

    def take_turn(self, clock: Clock) -> bool:
        """Run it for a while; whether it was faster than ever before."""
        before, self.best = self.best, min(self.best, fastest(self.run, clock))
        return self.best * SETTLED < before


def _timed(
    stages: Stages, allocate: Allocate | None, clock: Clock, on_probe: OnProbe | None
) -> dict[Probe, TimedProbe]:
    """The times of all programs that can be compiled."""
    trials: dict[Probe, _Trial] = {}
    end = clock() + MOST_SECONDS
    for number, probe in enumerate(PROBES):
        if clock() > end:
            break
        if on_probe is not None:
            on_probe(number, len(PROBES))
        with suppress(AfterglowError):
            trials[probe] = _compiled(stages, probe, allocate)
    _take_turns([*trials.values()], clock)
    if on_probe is not None:
        on_probe(len(PROBES), len(PROBES))
    return {probe: TimedProbe(trial.program, trial.best) for probe, trial in trials.items()}


def _take_turns(trials: Sequence[_Trial], clock: Clock) -> None:
    """Let programs take turns until none gets faster, but not for ever."""
    for number in range(MOST_ROUNDS):
        if not trials:
            return
        faster = [trial for trial in trials if trial.take_turn(clock)]
        trials = trials if number < ROUNDS - 1 else faster


def _compiled(stages: Stages, probe: Probe, allocate: Allocate | None) -> _Trial:
    """A probe, ready to run; it has run once, and what the driver puts off is done."""
    program, _ = stages.plan(stages.lower(stages.optimise(probe.module())))
    device = find_device(stages.backend.device)
    loading = LoadOptions(stages.options.threads)
    executable = device.load(stages.backend.compile(program), loading)
    run = _runner(executable, probe, interface_of(program), allocate)
    run()
    return _Trial(program, run)


def _runner(
    executable: Executable, probe: Probe, interface: Interface, allocate: Allocate | None
) -> Callable[[], object]:
    """Runs a probe on arrays of the host, or on buffers of the device if it has its own memory."""
    arrays = probe.arrays()
    if allocate is None:
        return lambda: executable.run(arrays, {})
    inputs, outputs = (
        [allocate(port.type) for port in ports] for ports in (interface.inputs, interface.outputs)
    )
    for buffer, array in zip(inputs, arrays, strict=True):
        buffer.write(array).result()
    return lambda: executable.start(inputs, outputs, {}).result()


def fastest(run: Callable[[], object], clock: Clock) -> float:
    """Seconds of the fastest of as many runs as fit into a turn."""
    best, runs, end = math.inf, 0, clock() + TURN_SECONDS
    while runs < LEAST_RUNS or (runs < MOST_RUNS and clock() < end):
        started = clock()
        run()
        best = min(best, clock() - started)
        runs += 1
    return best


def _allocate(device: Device, target: str, type: TensorType) -> DeviceBuffer:
    """A buffer on the device of a target."""
    if isinstance(device, SeveralDevices):
        return device.allocate_on(target, type)
    return device.allocate(type)


def _transfer(stages: Stages, probe: Probe, allocate: Allocate, clock: Clock) -> float:
    """Seconds of moving an input or an output: by those a run takes more on arrays of the host."""
    host, device = (_compiled(stages, probe, each) for each in (None, allocate))
    _take_turns([host, device], clock)
    return max(host.best - device.best, 0.0) / 2
