"""Stages on many nodes: which node runs which, checked against all placements of small clusters."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from afterglow.partition.cluster import ClusterNode, ClusterPlan, StageCost, plan_cluster
from afterglow.partition.problem import Link
from afterglow.support.errors import UsageError


def best_throughput(stages: list[StageCost], nodes: list[ClusterNode]) -> float:
    """The most requests a second of all placements."""
    best = 0.0
    for stage_of in product(range(len(stages)), repeat=len(nodes)):
        fits = all(stages[s].memory <= node.memory for s, node in zip(stage_of, nodes, strict=True))
        if fits and set(stage_of) == set(range(len(stages))):
            best = max(best, ClusterPlan(tuple(stages), tuple(nodes), stage_of).throughput)
    return best


def test_slow_stages_get_more_nodes() -> None:
    stages = [StageCost("a", 0.010, 1000), StageCost("b", 0.030, 1000)]
    plan = plan_cluster(stages, [ClusterNode()] * 8)
    assert [len(plan.replicas(stage)) for stage in (0, 1)] == [2, 6]
    assert plan.throughput == pytest.approx(200.0)


def test_latency_is_that_of_all_stages_and_transfers() -> None:
    stages = [StageCost("a", 0.010, 1000), StageCost("b", 0.030, 0)]
    plan = plan_cluster(stages, [ClusterNode()] * 2)
    assert plan.latency(Link(0.001, 1e6)) == pytest.approx(0.040 + 0.002 + 0.001)


def test_stages_go_where_there_is_memory_for_them() -> None:
    stages = [StageCost("large", 0.01, 0, 100), StageCost("small", 0.01, 0, 10)]
    nodes = [ClusterNode(memory=20), ClusterNode(memory=200), ClusterNode(memory=20)]
    assert plan_cluster(stages, nodes).stage_of == (1, 0, 1)


@pytest.mark.parametrize("seed", range(20))
def test_equal_nodes_are_shared_as_well_as_they_can_be(seed: int) -> None:
    rng = np.random.default_rng(seed)
    stages = [
        StageCost(str(n), float(rng.uniform(0.001, 0.02)), 0) for n in range(rng.integers(1, 4))
    ]
    nodes = [ClusterNode()] * int(rng.integers(len(stages), 7))
    found = plan_cluster(stages, nodes).throughput
    assert found == pytest.approx(best_throughput(stages, nodes))


@pytest.mark.parametrize("seed", range(20))
def test_uneven_nodes_are_shared_nearly_as_well(seed: int) -> None:
    rng = np.random.default_rng(seed)
    stages = [StageCost(str(n), float(rng.uniform(0.001, 0.02)), 0) for n in range(2)]
    nodes = [ClusterNode(float(rng.uniform(0.5, 2))) for _ in range(6)]
    assert plan_cluster(stages, nodes).throughput >= 0.7 * best_throughput(stages, nodes)


def test_a_stage_without_room_is_named() -> None:
    with pytest.raises(UsageError) as caught:
        plan_cluster([StageCost("a", 0.1, 0, 50)], [ClusterNode(memory=10)] * 2)
    assert str(caught.value) == (
        "error: no node is left for stage 'a', which needs 50 bytes\n"
        "  1 stages, 2 nodes, the largest with 10 bytes\n"
        "  help: add nodes, or divide the model into smaller stages"
    )
