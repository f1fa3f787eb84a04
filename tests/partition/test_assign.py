"""Placements on devices, against all there are."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afterglow.partition.assign import assign
from afterglow.partition.problem import Edge, Link, Problem, Task
from afterglow.support.errors import UsageError

LINK = Link(latency=1.0, bandwidth=1.0)


@st.composite
def problems(draw, devices: int, most: int) -> Problem:
    """A small random graph; the host computes everything."""
    count = draw(st.integers(1, most))
    seconds = st.integers(0, 9).map(float)
    tasks = []
    for number in range(count):
        able = draw(st.sets(st.integers(1, devices - 1)))
        tasks.append(Task(f"t{number}", {d: draw(seconds) for d in {0, *able}}))
    edges = [Edge(draw(st.integers(0, 5)), None, tuple(draw(st.sets(st.integers(0, count - 1)))))]
    for number in range(count):
        later = st.integers(number + 1, count - 1) if number + 1 < count else st.nothing()
        readers = tuple(draw(st.sets(later)))
        edges.append(Edge(draw(st.integers(0, 5)), number, readers, draw(st.booleans())))
    speeds = st.builds(Link, st.integers(0, 2).map(float), st.sampled_from([0.5, 1.0, 4.0]))
    ways = {(a, b): draw(speeds) for a in range(devices) for b in range(devices) if a != b}
    return Problem([f"d{d}" for d in range(devices)], tasks, edges, ways)


def best(problem: Problem) -> float:
    choices = [sorted(task.seconds) for task in problem.tasks]
    return min(problem.seconds(placement) for placement in product(*choices))


@settings(max_examples=40, deadline=None)
@given(problems(devices=2, most=6))
def test_two_devices_get_the_best_placement(problem):
    found = assign(problem)
    assert problem.allows(found)
    assert problem.seconds(found) == pytest.approx(best(problem))


@settings(max_examples=40, deadline=None)
@given(problems(devices=3, most=5))
def test_three_devices_are_never_worse_than_one(problem):
    found = assign(problem)
    alone = min(
        problem.seconds([d if d in task.seconds else 0 for task in problem.tasks]) for d in range(3)
    )
    assert problem.allows(found)
    assert best(problem) - 1e-9 <= problem.seconds(found) <= alone + 1e-9


def test_a_value_that_two_tasks_read_crosses_once():
    tasks = [Task("a", {0: 0.0}), Task("b", {0: 4.0, 1: 0.0}), Task("c", {0: 4.0, 1: 0.0})]
    problem = Problem(["cpu", "gpu"], tasks, [Edge(4, 0, (1, 2))], {(0, 1): LINK, (1, 0): LINK})
    assert assign(problem) == (0, 1, 1)
    assert problem.seconds((0, 1, 1)) == 5.0


def test_a_task_that_no_device_computes_is_named():
    problem = Problem(["cpu"], [Task("%y (Foo)", {})], [], {})
    with pytest.raises(UsageError, match=r"no device computes %y \(Foo\)"):
        assign(problem)
