"""Placements on devices, against all there are."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afterglow.partition.assign import assign
from afterglow.partition.problem import Edge, Link, Problem, Task
from afterglow.support.errors import UsageError
from tests.partition.problems import all_placements, alone, problems

LINK = Link(latency=1.0, bandwidth=1.0)


def best(problem: Problem) -> float:
    return min(map(problem.seconds, all_placements(problem)))


@settings(max_examples=25, deadline=None)
@given(st.one_of(problems(devices=2, most=6), problems(devices=3, most=6, host=1)))
def test_two_devices_get_the_best_placement(problem):
    found = assign(problem)
    assert problem.allows(found)
    assert problem.seconds(found) == pytest.approx(best(problem))


@settings(max_examples=25, deadline=None)
@given(problems(devices=3, most=5))
def test_three_devices_are_never_worse_than_one(problem):
    found = assign(problem)
    assert problem.allows(found)
    assert (
        best(problem) - 1e-9
        <= problem.seconds(found)
        <= min(map(problem.seconds, alone(problem))) + 1e-9
    )


def test_a_value_that_two_tasks_read_crosses_once():
    tasks = [Task("a", {0: 0.0}), Task("b", {0: 4.0, 1: 0.0}), Task("c", {0: 4.0, 1: 0.0})]
    problem = Problem(["cpu", "gpu"], tasks, [Edge(4, 0, (1, 2))], {(0, 1): LINK, (1, 0): LINK})
    assert assign(problem) == (0, 1, 1)
    assert problem.seconds((0, 1, 1)) == 5.0


def test_a_task_that_no_device_computes_is_named():
    problem = Problem(["cpu"], [Task("Foo_3", {})], [], {})
    with pytest.raises(UsageError, match="no device computes 'Foo_3'"):
        assign(problem)
