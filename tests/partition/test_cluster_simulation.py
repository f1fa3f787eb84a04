"""Simulated clusters, against what can be computed by hand."""

from __future__ import annotations

import pytest

from afterglow.partition.cluster import ClusterNode, StageCost, plan_cluster
from afterglow.partition.cluster_simulation import Failure, Load, simulate
from afterglow.partition.problem import Link

FREE = Link(0.0, 1e12)


def test_one_request_at_a_time_takes_the_sum_of_all() -> None:
    plan = plan_cluster([StageCost("a", 0.01, 1000), StageCost("b", 0.02, 0)], [ClusterNode()] * 2)
    seen = simulate(plan, Link(0.001, 1e6), Load(10, 1), overhead=0.0005)
    assert seen.latencies == pytest.approx([0.01 + 0.002 + 0.02 + 0.001 + 0.001] * 10)


def test_a_full_pipeline_is_as_fast_as_its_slowest_stage() -> None:
    plan = plan_cluster([StageCost("a", 0.01, 0), StageCost("b", 0.02, 0)], [ClusterNode()] * 2)
    seen = simulate(plan, FREE, Load(1000, 8))
    assert seen.throughput == pytest.approx(50.0, rel=0.01)
    assert seen.busy == pytest.approx((0.5, 1.0), abs=0.01)


def test_hundreds_of_nodes_have_the_throughput_of_the_plan() -> None:
    stages = [StageCost("a", 0.010, 1000), StageCost("b", 0.030, 1000), StageCost("c", 0.005, 100)]
    plan = plan_cluster(stages, [ClusterNode()] * 300)
    seen = simulate(plan, Link(50e-6, 1e9), Load(20_000, 900))
    assert seen.throughput == pytest.approx(plan.throughput, rel=0.05)
    assert len(seen.latencies) == 20_000


def test_a_slow_link_limits_what_its_node_passes_on() -> None:
    plan = plan_cluster(
        [StageCost("a", 0.001, 10**6), StageCost("b", 0.001, 0)], [ClusterNode()] * 2
    )
    seen = simulate(plan, Link(0.0, 100e6), Load(500, 8))
    assert seen.throughput == pytest.approx(100.0, rel=0.02)


def test_nodes_that_do_not_overlap_compute_or_pass_on() -> None:
    plan = plan_cluster([StageCost("a", 0.01, 10**6)], [ClusterNode()])
    link = Link(0.0, 100e6)
    assert simulate(plan, link, Load(200, 4)).throughput == pytest.approx(100, rel=0.05)
    seen = simulate(plan, link, Load(200, 4), overlap=False)
    assert seen.throughput == pytest.approx(50, rel=0.05)


def test_requests_of_a_node_that_dies_begin_again_elsewhere() -> None:
    plan = plan_cluster([StageCost("a", 0.01, 0)], [ClusterNode()] * 3)
    whole = simulate(plan, FREE, Load(300, 6))
    seen = simulate(plan, FREE, Load(300, 6), [Failure(1, at=0.255)])
    assert len(seen.latencies) == 300
    assert 1 <= seen.repeated <= 2
    assert whole.seconds < seen.seconds < 1.6 * whole.seconds


def test_requests_wait_for_the_only_replica_to_return() -> None:
    plan = plan_cluster([StageCost("a", 0.01, 0)], [ClusterNode()])
    seen = simulate(plan, FREE, Load(10, 2), [Failure(0, at=0.035, lasts=1.0)])
    assert len(seen.latencies) == 10
    assert max(seen.latencies) > 1.0
