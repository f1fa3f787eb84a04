"""How long a cluster answers nothing after the kill of a process, or the loss of a node.

`python -m benchmarks.ray_recovery [MODEL.onnx]` starts a cluster of three nodes on the loopback
address, with a model in two stages, and asks it one request after another. In the middle it kills a
process or a node with SIGKILL. The recovery time is the longest time between two answers around the
kill; each answer is compared with that of one machine. Needs the extra `ray`.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray.cluster_utils import Cluster

import afterglow as ag
from afterglow import CompiledModel
from afterglow.ray import Pipeline
from benchmarks.ray_pipeline import LOOPBACK, local_cluster

DIGITS = Path(__file__).parents[1] / "examples/digits/digits.onnx"
BEFORE = 2.0
"""Seconds of requests before a kill."""
CALM = 3.0
"""Seconds with answers after which a run is over."""
LONGEST = 90.0
WHAT = ("process", "node")


def main() -> None:
    """Print a line for each thing that dies."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, nargs="?", default=DIGITS)
    parser.add_argument("--what", nargs="+", choices=WHAT, default=WHAT)
    given = parser.parse_args()
    devices = [ag.LogicalDevice(f"cpu:{place}", threads=1) for place in range(2)]
    staged = ag.compile(given.model, backend=devices, partition=ag.PartitionConfig("throughput"))
    whole = ag.compile(given.model, threads=1)
    made = local_cluster(3)
    with made:
        if "process" in given.what:
            kill_processes(staged, whole)
        if "node" in given.what:
            lose_node(made.cluster, staged, whole)


def kill_processes(staged: CompiledModel, whole: CompiledModel) -> None:
    """Kill the only process of a stage, and one of two."""
    for replicas in (1, 2):
        with Pipeline(staged, replicas={"cpu:1": replicas}) as pipeline:
            report(f"a process, {replicas} of them", pipeline, whole, kill_process)


def lose_node(cluster: Cluster, staged: CompiledModel, whole: CompiledModel) -> None:
    """Lose the node that a stage is on; another one has what it needs, and does nothing yet."""
    node = add_node(cluster)
    with Pipeline(staged, resources={"cpu:1": {"x": 0.1}}) as pipeline:
        add_node(cluster)
        cluster.wait_for_nodes()

        def lose(_: Pipeline) -> None:
            cluster.remove_node(node, allow_graceful=False)

        report("a node, another one is idle", pipeline, whole, lose)


def add_node(cluster: Cluster) -> object:
    """A node with the resource x."""
    about = {"num_cpus": 1, "node_ip_address": LOOPBACK, "resources": {"x": 1}}
    return cluster.add_node(object_store_memory=200 << 20, **about)


def report(
    what: str, pipeline: Pipeline, whole: CompiledModel, kill: Callable[[Any], None]
) -> None:
    """Ask without a pause, kill something meanwhile, and print what was seen."""
    inputs = [np.zeros(info.exact_shape, info.dtype.numpy) for info in whole.inputs]
    right = whole(*inputs)
    pipeline(*inputs)
    killed: list[float] = []

    def later() -> None:
        time.sleep(BEFORE)
        killed.append(time.monotonic())
        kill(pipeline)

    threading.Thread(target=later).start()
    times = [time.monotonic()]
    until = times[0] + LONGEST
    while times[-1] < until and not (killed and times[-1] - killed[0] > CALM):
        np.testing.assert_array_equal(pipeline(*inputs), right)
        times.append(time.monotonic())
    gaps = np.diff(times)
    seen = pipeline.statistics
    print(
        f"{what}: {gaps.max():.2f} s without an answer, else {np.median(gaps) * 1e3:.1f} ms; "
        f"{seen.answered} answered, {seen.failed} failed, {seen.repeated} begun again",
        flush=True,
    )


def kill_process(pipeline: Pipeline) -> None:
    """Kill the process of a replica of the last stage."""
    actor = pipeline._actors[-1][0]
    os.kill(ray.get(actor.__ray_call__.remote(lambda _: os.getpid())), signal.SIGKILL)


if __name__ == "__main__":
    main()
