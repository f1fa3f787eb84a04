"""Schedules against PyTorch's numbers; they can be stored, and refuse what makes no sense."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from afterglow.optim import (
    Constant,
    Cosine,
    Exponential,
    LinearWarmup,
    OneCycle,
    Piecewise,
    Polynomial,
    Schedule,
    StepDecay,
    schedules,
)
from afterglow.support.errors import UsageError

BY_PYTORCH = [
    (Constant(0.1), {0: 0.1, 99: 0.1}),
    (LinearWarmup(0.1, 4), {0: 0.025, 1: 0.05, 2: 0.075, 3: 0.1, 5: 0.1}),
    (LinearWarmup(0.1, 0), {0: 0.1}),
    (StepDecay(0.1, 3, 0.5), {0: 0.1, 2: 0.1, 3: 0.05, 9: 0.0125}),
    (Exponential(0.1, 0.9), {0: 0.1, 1: 0.09, 5: 0.059049, 9: 0.0387420489}),
    (Cosine(0.1, 10, end=0.01), {0: 0.1, 1: 0.0977975432, 5: 0.055, 9: 0.0122024568, 10: 0.01}),
    (
        Cosine(0.1, 10, warmup=4),
        {0: 0.025, 3: 0.1, 4: 0.1, 5: 0.0933012702, 7: 0.05, 9: 0.00669872981, 50: 0.0},
    ),
    (Polynomial(0.1, 10, power=2), {0: 0.1, 1: 0.081, 5: 0.025, 9: 0.001, 10: 0.0, 11: 0.0}),
    (
        OneCycle(0.1, 20),
        {0: 0.004, 1: 0.0131671843, 5: 0.1, 6: 0.0987464006, 12: 0.0500002, 19: 4e-07, 30: 4e-07},
    ),
    (Piecewise(0.1, [3, 7], [0.01, 0.001]), {0: 0.1, 2: 0.1, 3: 0.01, 6: 0.01, 7: 0.001, 9: 0.001}),
]


@pytest.mark.parametrize(("schedule", "rates"), BY_PYTORCH, ids=str)
def test_rates_are_those_of_pytorch(schedule: Schedule, rates: dict[int, float]) -> None:
    assert {step: schedule(step) for step in rates} == pytest.approx(rates, rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("schedule", [schedule for schedule, _ in BY_PYTORCH], ids=str)
def test_a_schedule_can_be_stored(schedule: Schedule) -> None:
    assert schedules.from_json(json.loads(json.dumps(schedule.as_json()))) == schedule


def test_a_schedule_reads_as_it_is_written() -> None:
    assert repr(Cosine(0.1, 10)) == "Cosine(lr=0.1, steps=10, warmup=0, end=0.0)"


REFUSED = [
    (lambda: Constant(-1), "Constant: lr must be a number of at least 0, got -1"),
    (lambda: StepDecay(0.1, 0), "StepDecay: every must be a whole number from 1, got 0"),
    (lambda: LinearWarmup(0.1, 1.5), "LinearWarmup: warmup must be a whole number from 0, got 1.5"),
    (lambda: Cosine(0.1, 5, 5), "Cosine: warmup must be less than the 5 steps, got 5"),
    (
        lambda: OneCycle(0.1, 10, 0.1),
        "OneCycle: the rate must rise in more than 1 and fewer than all of 10 steps, got rise=0.1",
    ),
    (
        lambda: Piecewise(0.1, [1], []),
        "Piecewise: each boundary needs a rate, got 1 boundaries and 0 rates",
    ),
    (
        lambda: Piecewise(0.1, [2, 2], [1, 1]),
        "Piecewise: boundaries must rise from 1 on, got (2, 2)",
    ),
    (lambda: Piecewise(0.1, 3, 4), "Piecewise: boundaries must be a list of numbers, got 3"),
    (
        lambda: Piecewise(0.1, [3], ["a"]),
        "Piecewise: rates must be a number of at least 0, got 'a'",
    ),
    (lambda: schedules.from_json({"kind": "Sine"}), "there is no schedule 'Sine'"),
]


@pytest.mark.parametrize(("make", "text"), REFUSED, ids=lambda x: x if isinstance(x, str) else "")
def test_what_makes_no_sense_is_refused(make: Callable[[], Schedule], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    assert caught.value.what == text
