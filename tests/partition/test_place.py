"""Placements for an objective, within the memory of devices."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from afterglow.partition.place import place
from afterglow.partition.problem import Edge, Link, Problem, Task
from afterglow.support.errors import MemoryLimitError
from tests.partition.problems import all_stages, alone, problems

QUICK = settings(max_examples=20, deadline=None)


@QUICK
@pytest.mark.parametrize("objective", ["latency", "throughput"])
@given(problem=problems(devices=3, most=5, limited=True))
def test_a_placement_fits_and_is_never_worse_than_one_device(objective, problem):
    cost = problem.load if objective == "throughput" else problem.seconds
    reachable = [*alone(problem), *all_stages(problem)]
    try:
        found = place(problem, objective)
    except MemoryLimitError:
        assert not reachable
        return
    assert problem.allows(found)
    assert problem.fits(found)
    single = [cost(placement) for placement in alone(problem)]
    assert cost(found) <= min(single, default=cost(found)) + 1e-9


def test_a_model_that_fits_no_device_is_refused_with_what_it_needs():
    tasks = [Task("small", {0: 1.0, 1: 1.0}, weights=(0,)), Task("large", {0: 1.0}, weights=(1,))]
    ways = {(0, 1): Link(0.0, 1.0), (1, 0): Link(0.0, 1.0)}
    problem = Problem(
        ["cpu:0", "cpu:1"], tasks, [Edge(1024, 0, (1,))], ways, [2048, 8192], [4096, None]
    )
    with pytest.raises(MemoryLimitError) as error:
        place(problem, "latency")
    assert str(error.value) == (
        "error: the model needs 11 KiB for weights and values, 9 KiB of it for 'large' alone: "
        "no placement was found that fits the devices\n"
        "  help: they have cpu:0 4 KiB, cpu:1 any: add a device, or allow more memory"
    )
