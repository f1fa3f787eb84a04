"""Stages of pipelines, against all there are."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from afterglow.partition import stages
from afterglow.partition.problem import Edge, Link, Problem, Task
from afterglow.partition.stages import balanced_stages, fastest_stages
from tests.partition.problems import all_stages, problems

QUICK = settings(max_examples=20, deadline=None)


@QUICK
@given(problems(devices=3, most=5, limited=True))
def test_the_slowest_stage_is_the_fastest_there_is(problem):
    found = balanced_stages(problem)
    best = min(map(problem.load, all_stages(problem)), default=None)
    if best is None:
        assert found is None
    else:
        assert problem.fits(found)
        assert problem.allows(found)
        assert problem.load(found) == pytest.approx(best)


@QUICK
@given(problems(devices=3, most=5, limited=True))
def test_all_stages_take_the_least_time_there_is(problem):
    found = fastest_stages(problem)
    best = min((sum(problem.busy(placement)) for placement in all_stages(problem)), default=None)
    assert (None if found is None else pytest.approx(sum(problem.busy(found)))) == best


def chain(seconds: dict[int, float], count: int, **memory) -> Problem:
    tasks = [Task(f"t{i}", seconds, weights=(i,)) for i in range(count)]
    edges = [Edge(1, i, (i + 1,)) for i in range(count - 1)]
    devices = range(max(2, *seconds) + 1)
    ways = {(a, b): Link(0.0, 10.0) for a in devices for b in devices}
    return Problem([f"d{i}" for i in devices], tasks, edges, ways, [10] * count, **memory)


def test_a_pipeline_is_even():
    assert balanced_stages(chain({0: 1.0, 1: 1.0, 2: 1.0}, 9)) == (0,) * 3 + (1,) * 3 + (2,) * 3


def test_a_fast_device_gets_more():
    assert balanced_stages(chain({0: 3.0, 1: 1.0}, 8)) == (0,) * 2 + (1,) * 6


def test_no_device_holds_more_than_its_memory():
    problem = chain({0: 1.0, 1: 1.0, 2: 1.0}, 7, memories=[25, 25, 35])
    placement = fastest_stages(problem)
    assert problem.fits(placement)
    assert [placement.count(device) for device in range(3)] == [2, 2, 3]


def test_long_chains_are_cut_at_some_of_their_tasks(monkeypatch):
    monkeypatch.setattr(stages, "MOST_BOUNDARIES", 10)
    problem = chain({0: 1.0, 1: 1.0}, 40)
    assert balanced_stages(problem) == (0,) * 20 + (1,) * 20


def test_many_devices_come_in_their_order(monkeypatch):
    monkeypatch.setattr(stages, "MOST_ORDERED", 2)
    assert balanced_stages(chain({0: 3.0, 1: 1.0, 2: 1.0}, 7)) == (0,) + (1,) * 3 + (2,) * 3


def test_many_devices_need_no_table_for_each_set_of_them():
    found = balanced_stages(chain(dict.fromkeys(range(40), 1.0), 80))
    assert [found.count(device) for device in range(40)] == [2] * 40
