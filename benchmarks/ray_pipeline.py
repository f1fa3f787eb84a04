"""A model in two stages on two nodes of a local Ray cluster, measured and simulated.

`python -m benchmarks.ray_pipeline MODEL.onnx [--requests 200]` starts a cluster on the loopback
address, times its parts (each stage alone, a call, a transfer), predicts the run from these by the
simulation of docs/scale.md, and runs it. The nodes share the cores of this machine with Ray's own
processes, so the simulation does not overlap transfers and arithmetic. Needs the extra `ray`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray._private import services
from ray.cluster_utils import Cluster

import afterglow as ag
from afterglow.partition.cluster import ClusterNode, ClusterPlan, StageCost
from afterglow.partition.cluster_simulation import Load, simulate
from afterglow.partition.problem import Link
from afterglow.ray import Pipeline
from afterglow.runtime.partitioned.stages import Stages, stages_of

LOOPBACK = "127.0.0.1"
IN_FLIGHT = (1, 2, 4)


def main() -> None:
    """Print a table: requests in flight, measured and simulated requests a second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--requests", type=int, default=200)
    given = parser.parse_args()
    devices = [ag.LogicalDevice(f"cpu:{place}", threads=1) for place in range(2)]
    model = ag.compile(given.model, backend=devices, partition=ag.PartitionConfig("throughput"))
    inputs = [np.zeros(info.exact_shape, info.dtype.numpy) for info in model.inputs]
    stages = stages_of(model)
    costs = stage_costs(stages, inputs)
    with local_cluster(2):
        link, overhead = measured_link(), measured_call()
        print(f"a call {overhead * 1e6:.0f} µs, a transfer {link.latency * 1e6:.0f} µs + ", end="")
        print(f"bytes / {link.bandwidth / 1e9:.2f} GB/s")
        for cost in costs:
            print(f"stage {cost.name}: {cost.seconds * 1e3:.2f} ms, {cost.output_bytes:,} B on")
        driver = StageCost("driver", 0.0, sum(array.nbytes for array in inputs))
        costs = [driver, *costs]
        plan = ClusterPlan(tuple(costs), (ClusterNode(),) * len(costs), tuple(range(len(costs))))
        print("in flight   measured/s   simulated/s   measured p50, ms   simulated p50, ms")
        for in_flight in IN_FLIGHT:
            rate, middle = measured(model, inputs, given.requests, in_flight)
            load = Load(given.requests, in_flight)
            seen = simulate(plan, link, load, overhead=overhead, overlap=False)
            print(
                f"{in_flight:9} {rate:12.1f} {seen.throughput:13.1f} "
                f"{middle * 1e3:18.2f} {seen.percentile(0.5) * 1e3:19.2f}"
            )


def stage_costs(stages: Stages, inputs: list[Any]) -> list[StageCost]:
    """The time of each stage alone, in this process."""
    values = dict(zip(stages.inputs, inputs, strict=True))
    costs = []
    with tempfile.TemporaryDirectory() as folder:
        for stage in stages.parts:
            path = Path(folder, "stage.agc")
            path.write_bytes(stage.content)
            part = ag.load(path, threads=1)
            feed = {name: values[name] for name in stage.inputs}
            values.update(zip(stage.outputs, part.run(None, feed), strict=True))
            seconds = median_seconds(lambda part=part, feed=feed: part.run(None, feed))
            costs.append(StageCost(stage.name, seconds, stage.output_bytes, stage.memory))
    return costs


class local_cluster:  # noqa: N801  reads as the function that it is used as
    """Some nodes on the loopback address, with this process as their driver."""

    def __init__(self, nodes: int) -> None:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        services.get_node_ip_address = lambda *_, **__: LOOPBACK
        node = {"num_cpus": 1, "node_ip_address": LOOPBACK, "object_store_memory": 200 << 20}
        self.cluster = Cluster(
            initialize_head=True, head_node_args={**node, "include_dashboard": False}
        )
        for _ in range(nodes - 1):
            self.cluster.add_node(**node)

    def __enter__(self) -> None:
        """Connect this process."""
        ray.init(address=self.cluster.address, _node_ip_address=LOOPBACK, log_to_driver=False)
        self.cluster.wait_for_nodes()

    def __exit__(self, *_: object) -> None:
        """End all of it."""
        ray.shutdown()
        self.cluster.shutdown()


class Echo:
    """An actor that computes nothing."""

    def size(self, array: Any) -> int:
        """The bytes of an array."""
        return int(array.nbytes)


def measured_call() -> float:
    """Seconds of a call that passes almost nothing."""
    actor = ray.remote(Echo).options(num_cpus=0).remote()
    small = np.zeros(1)
    return median_seconds(lambda: ray.get(actor.size.remote(small)))


def measured_link() -> Link:
    """A line through the times of a small and of a large transfer to another node."""
    here = ray.get_runtime_context().get_node_id()
    other = next(node["NodeID"] for node in ray.nodes() if node["NodeID"] != here)
    there = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(other, soft=False)
    actor = ray.remote(Echo).options(num_cpus=0, scheduling_strategy=there).remote()
    sizes = (1 << 17, 1 << 20)
    times = [
        median_seconds(lambda n=n: ray.get(actor.size.remote(ray.put(np.zeros(n, np.uint8)))), 20)
        for n in sizes
    ]
    bandwidth = (sizes[1] - sizes[0]) / max(times[1] - times[0], 1e-9)
    return Link(max(times[0] - sizes[0] / bandwidth - measured_call(), 0.0), bandwidth)


def measured(
    model: ag.CompiledModel, inputs: list[Any], requests: int, in_flight: int
) -> tuple[float, float]:
    """Requests a second of a pipeline, and the median of their latencies."""
    latencies: list[float] = []
    with Pipeline(model, max_active=in_flight, max_queue=requests) as pipeline:
        pipeline(*inputs)
        began = time.perf_counter()
        ends = [began] * in_flight
        for future in [pipeline.submit(*inputs) for _ in range(requests)]:
            future.result()
            ends.append(time.perf_counter())
            latencies.append(ends[-1] - ends[-1 - in_flight])
        return requests / (time.perf_counter() - began), float(np.median(latencies))


def median_seconds(call: Callable[[], object], repeat: int = 50) -> float:
    """The median time of some calls, after two others."""
    times = []
    for _ in range(repeat + 2):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return float(np.median(times[2:]))


if __name__ == "__main__":
    main()
