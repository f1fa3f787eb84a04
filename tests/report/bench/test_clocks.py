from __future__ import annotations

from afterglow.report.bench.engine_process import clocks
from afterglow.report.bench.engine_process.clocks import LEAST_CALLS, repeat


class Calls:
    def __init__(self):
        self.count = 0

    def __call__(self):
        self.count += 1


def test_the_first_call_of_a_turn_warms_up():
    call = Calls()
    times = repeat(call, seconds=0.0)
    assert len(times) == LEAST_CALLS
    assert call.count == LEAST_CALLS + 1


def test_slow_calls_are_not_repeated(monkeypatch):
    monkeypatch.setattr(clocks, "SLOW", 0.0)
    call = Calls()
    assert len(repeat(call, seconds=0.0)) == 1
    assert call.count == 2


def test_endless_calls_are_not_warmed_up():
    call = Calls()
    assert len(repeat(call, seconds=0.0, warm=False)) == 1
    assert call.count == 1


def test_a_turn_takes_the_time_it_is_given():
    assert len(repeat(lambda: None, seconds=0.01)) > LEAST_CALLS
    assert len(repeat(lambda: None, seconds=60)) == clocks.MOST_CALLS
