from __future__ import annotations

import pytest

from afterglow.backends.cpu.backend import Cpu
from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from benchmarks.estimates import plan_model
from benchmarks.run import DEMO
from benchmarks.simulate_cores import (
    TimedLane,
    TimedStep,
    narrow_table,
    simulate,
    step_seconds,
    timed_steps,
)

EVEN = [1.0] * 16
UNEVEN = [1.0] * 13 + [0.5] * 3


def step(units, seconds=16e-3):
    return TimedStep("a step", (TimedLane(units, units, seconds),), min(units, 128))


def test_one_thread_takes_the_sum_of_all_steps():
    assert simulate([step(3, 0.25), step(5, 0.5)], [1.0]) == 0.75


def test_a_step_of_few_units_keeps_few_threads_busy():
    assert step_seconds(step(4), EVEN) == pytest.approx(4e-3, rel=0.01)
    assert step_seconds(step(64), EVEN) == pytest.approx(1e-3, rel=0.01)


def test_small_chunks_even_out_cores_of_different_speed():
    ideal = 16e-3 / sum(UNEVEN)
    assert step_seconds(step(16), UNEVEN) > 1.7 * ideal
    assert step_seconds(step(128), UNEVEN) < 1.15 * ideal


def test_steps_of_a_model_are_timed_with_their_division():
    stages = Stages(Options(cache=None))
    assert isinstance(stages.backend, Cpu)
    program = plan_model(DEMO / "digits.onnx", stages)
    by_work, measured = (timed_steps(program, stages.backend, runs) for runs in (0, 2))
    assert [(s.name, s.units) for s in by_work] == [(s.name, s.units) for s in measured]
    assert all(s.seconds > 0 for s in measured)
    assert "100 % of the time" in narrow_table(measured, 1000)
