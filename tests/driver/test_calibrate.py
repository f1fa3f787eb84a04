"""Probes are compiled for a device and timed on it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from math import inf

import pytest

from afterglow.driver import calibrate as module
from afterglow.driver.calibrate import calibrate, fastest
from afterglow.driver.devices import find_device
from afterglow.driver.options import Options
from afterglow.partition import probes
from afterglow.partition.fit import NOMINAL
from afterglow.support.errors import AfterglowWarning

FEW = (probes.EMPTY_RUN, probes.CHAIN, *[*probes.BANDWIDTHS.values()][:1], probes.PRODUCTS[3])


@pytest.fixture(autouse=True)
def few_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PROBES", FEW)
    monkeypatch.setattr(module, "ROUNDS", 2)
    monkeypatch.setattr(module, "MOST_ROUNDS", 8)
    monkeypatch.setattr(module, "interruptions", lambda: 0)


def test_the_rates_of_the_cpu_are_measured() -> None:
    counted: list[tuple[int, int]] = []
    info = find_device("cpu").describe()
    rates = calibrate(Options(threads=1), info, on_probe=lambda *counts: counted.append(counts))
    assert counted == [(number, len(FEW)) for number in range(len(FEW) + 1)]
    assert [*rates.products] == ["conv/f32/direct/constant"]
    assert 1e8 < rates.flops < 1e13
    assert 1e8 < rates.levels[0].bandwidth < 1e13
    assert 0 < rates.step_seconds < rates.run_seconds < 0.1
    assert rates.transfer_bandwidth == inf
    assert not rates.is_stated


def test_a_busy_machine_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PROBES", FEW[:1])
    counted = iter([0, 1_000_000])
    monkeypatch.setattr(module, "interruptions", lambda: next(counted))
    expected = (
        "other processes keep the machine busy: device 'cpu' may be faster than measured; "
        "run 'afterglow devices --measure' once it is quiet"
    )
    with pytest.warns(AfterglowWarning) as caught:
        calibrate(Options(threads=1), find_device("cpu").describe())
    assert [str(each.message) for each in caught] == [expected]


def test_programs_that_a_backend_cannot_run_are_left_out() -> None:
    class Stages(module.Stages):
        def plan(self, module):
            raise module_error

    module_error = module.AfterglowError("no kernel")
    info = find_device("cpu").describe()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "Stages", Stages)
        assert calibrate(Options(threads=1), info) == NOMINAL


def test_programs_go_on_while_they_get_faster() -> None:
    turns = {"slow": 0, "settled": 0}

    class Trial:
        def __init__(self, name: str, fast: int) -> None:
            self.name, self.fast = name, fast

        def take_turn(self, clock: object) -> bool:
            turns[self.name] += 1
            return turns[self.name] <= self.fast

    module._take_turns([Trial("slow", 5), Trial("settled", 1)], module.perf_counter)
    assert turns == {"slow": 6, "settled": module.ROUNDS}


def ticking(times: Sequence[float]):
    """A clock that shows these times, and then goes on by seconds."""
    later = (times[-1] + second for second in count(1))
    shown = iter([*times])
    return lambda: next(shown, None) or next(later)


def test_the_fastest_of_some_runs_counts() -> None:
    runs: list[int] = []
    clock = ticking([100.0, 100.0, 103.0, 103.0, 105.0])
    assert fastest(lambda: runs.append(1), clock) == 2.0
    assert len(runs) == module.LEAST_RUNS
