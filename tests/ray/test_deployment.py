"""Models as deployments of Ray Serve."""

from __future__ import annotations

import asyncio
import json
import socket
import urllib.error
import urllib.request
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from ray import serve
from ray.cluster_utils import Cluster

from afterglow import CompiledModel
from afterglow.ray import deployment
from afterglow.ray.deployment import ModelReplica


@pytest.mark.slow
def test_a_deployment_answers_handles_and_http(
    cluster: Cluster, whole: CompiledModel, images: list[np.ndarray]
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serve.start(proxy_location="HeadOnly", http_options={"host": "127.0.0.1", "port": port})
    try:
        handle = serve.run(deployment(whole), name="digits", route_prefix="/digits")
        np.testing.assert_array_equal(handle.remote(images[0]).result()[0], whole(images[0]))
        body = json.dumps({"inputs": {"image": images[1].tolist()}}).encode()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/digits", body) as answer:
            outputs = json.load(answer)["outputs"]
        np.testing.assert_allclose(outputs["probabilities"], whole(images[1]), rtol=1e-6)
    finally:
        serve.shutdown()


def answer_of(model: CompiledModel, body: bytes) -> tuple[int, Any]:
    """What a replica answers over HTTP, in this process."""

    async def read() -> bytes:
        return body

    replica = ModelReplica(SimpleNamespace(load=lambda threads: model), 1)
    answer = asyncio.run(replica(SimpleNamespace(scope={}, body=read)))
    return answer.status_code, json.loads(answer.body)


def test_a_replica_answers_requests(whole: CompiledModel, images: list[np.ndarray]) -> None:
    body = json.dumps({"inputs": {"image": images[0].tolist()}}).encode()
    status, answer = answer_of(whole, body)
    assert status == 200
    np.testing.assert_allclose(answer["outputs"]["probabilities"], whole(images[0]), rtol=1e-6)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"{", "JSON with inputs by name"),
        (b"[]", "JSON with inputs by name"),
        (b'{"inputs": 3}', "JSON with inputs by name"),
        (b'{"inputs": {}}', "'image' is missing"),
        (b'{"inputs": {"image": "text"}}', "image"),
    ],
)
def test_bad_requests_are_answered_with_the_reason(
    whole: CompiledModel, body: bytes, why: str
) -> None:
    status, answer = answer_of(whole, body)
    assert status == 400
    assert why in answer["error"]
