"""A cluster of three logical nodes on the loopback address, and a model in two stages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'afterglow[ray]'")

from ray._private import services  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

import afterglow as ag  # noqa: E402
from afterglow import CompiledModel  # noqa: E402

DIGITS = Path(__file__).parents[2] / "examples/digits/digits.onnx"
LOOPBACK = "127.0.0.1"
STORE = 80 << 20


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The cluster, which this process is a driver of."""
    patch = pytest.MonkeyPatch()
    patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    patch.setattr(services, "get_node_ip_address", lambda *_, **__: LOOPBACK)
    made = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 1,
            "node_ip_address": LOOPBACK,
            "include_dashboard": False,
            "object_store_memory": STORE,
        },
    )
    for _ in range(2):
        add_node(made)
    ray.init(address=made.address, _node_ip_address=LOOPBACK, log_to_driver=False)
    made.wait_for_nodes()
    yield made
    ray.shutdown()
    made.shutdown()
    patch.undo()


def add_node(cluster: Cluster) -> object:
    """One more node, with one core."""
    return cluster.add_node(num_cpus=1, node_ip_address=LOOPBACK, object_store_memory=STORE)


@pytest.fixture(scope="session")
def whole() -> CompiledModel:
    return ag.compile(DIGITS, threads=1)


@pytest.fixture(scope="session")
def staged() -> CompiledModel:
    devices = [ag.LogicalDevice(f"cpu:{place}", threads=1) for place in range(2)]
    return ag.compile(DIGITS, backend=devices, partition=ag.PartitionConfig("throughput"))


@pytest.fixture(scope="session")
def images() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.random((1, 1, 8, 8), dtype=np.float32) for _ in range(30)]
