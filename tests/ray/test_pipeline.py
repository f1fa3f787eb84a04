"""Models in stages on nodes: the same numbers, and no request lost when something dies."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import Future

import numpy as np
import pytest
import ray
from ray.cluster_utils import Cluster

from afterglow import CompiledModel, UsageError
from afterglow.ray import Pipeline
from tests.ray.conftest import DIGITS, add_node

Images = list[np.ndarray]


def check(futures: list[Future], images: Images, whole: CompiledModel) -> None:
    """All requests were answered, each with what the model on one machine computes."""
    for future, image in zip(futures, images, strict=True):
        np.testing.assert_array_equal(future.result(120)[0], whole(image))


def process_of(actor: object) -> int:
    return ray.get(actor.__ray_call__.remote(lambda _: os.getpid()))


def test_stages_on_two_nodes_compute_what_one_machine_does(
    cluster: Cluster, staged: CompiledModel, whole: CompiledModel, images: Images
) -> None:
    with Pipeline(staged) as pipeline:
        nodes = [node for replicas in pipeline.nodes.values() for node in replicas]
        assert len(set(nodes)) == 2
        check([pipeline.submit(image) for image in images], images, whole)
        np.testing.assert_array_equal(pipeline(image=images[0]), whole(images[0]))
        assert pipeline.statistics.answered == len(images) + 1
        assert pipeline.statistics.repeated == 0


def test_errors_of_a_call_are_those_of_the_model(cluster: Cluster, staged: CompiledModel) -> None:
    with Pipeline(staged) as pipeline:
        with pytest.raises(UsageError, match="image"):
            pipeline(np.zeros((3, 3), np.float32))
        with pytest.raises(UsageError, match="no input 'picture'"):
            pipeline(picture=np.zeros((1, 1, 8, 8), np.float32))


def test_a_killed_process_loses_no_request(
    cluster: Cluster, staged: CompiledModel, whole: CompiledModel, images: Images
) -> None:
    with Pipeline(staged) as pipeline:
        victim = process_of(pipeline._actors[1][0])
        futures = [pipeline.submit(image) for image in images[:10]]
        os.kill(victim, signal.SIGKILL)
        futures += [pipeline.submit(image) for image in images[10:]]
        check(futures, images, whole)
        assert pipeline.statistics.answered == len(images)
        assert pipeline.statistics.repeated > 0


@pytest.mark.slow
def test_a_killed_node_loses_no_request(
    cluster: Cluster, staged: CompiledModel, whole: CompiledModel, images: Images
) -> None:
    node = add_node(cluster)
    with Pipeline(staged, replicas={"cpu:1": 2}) as pipeline:
        futures = [pipeline.submit(image) for image in images[:10]]
        cluster.remove_node(node, allow_graceful=False)
        futures += [pipeline.submit(image) for image in images[10:]]
        check(futures, images, whole)
        assert pipeline.statistics.failed == 0


@pytest.mark.slow
def test_a_slow_process_gets_company(
    cluster: Cluster, whole: CompiledModel, images: Images
) -> None:
    with Pipeline(whole, replicas=2, slow_after=0.3, max_active=1) as pipeline:
        slow = process_of(pipeline._actors[0][0])
        os.kill(slow, signal.SIGSTOP)
        try:
            began = time.monotonic()
            check([pipeline.submit(image) for image in images[:4]], images[:4], whole)
            assert time.monotonic() - began < 60
        finally:
            os.kill(slow, signal.SIGCONT)
        assert pipeline.statistics.answered == 4
        assert pipeline.statistics.repeated >= 1


def test_what_the_cluster_has_no_room_for_is_refused(
    cluster: Cluster, whole: CompiledModel
) -> None:
    with pytest.raises(UsageError, match="no place for all stages within 1 s"):
        Pipeline(whole, resources={"model": {"accelerator": 1}}, ready_within=1.0)


def test_wrong_use_is_said(staged: CompiledModel) -> None:
    with pytest.raises(UsageError, match="no stage 'gpu'"):
        Pipeline(staged, replicas={"gpu": 2})
    with pytest.raises(UsageError, match="is no saved model"):
        Pipeline(DIGITS)
    with pytest.raises(UsageError, match="there is no file"):
        Pipeline("nothing.agc")
