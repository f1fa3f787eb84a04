"""Models as deployments of Ray Serve."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton
from ray import serve
from ray.cluster_utils import Cluster
from tritonclient.utils import InferenceServerException

from afterglow import CompiledModel, UsageError
from afterglow.ray import deployment
from afterglow.ray.replica import ModelReplica

INFER = "/v2/models/digits/infer"


@pytest.fixture
def serving(cluster: Cluster) -> Iterator[int]:
    """Ray Serve, at the port that it gives."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serve.start(proxy_location="HeadOnly", http_options={"host": "127.0.0.1", "port": port})
    yield port
    serve.shutdown()


@pytest.mark.slow
def test_a_deployment_answers_handles_and_clients_of_other_servers(
    serving: int, whole: CompiledModel, images: list[np.ndarray]
) -> None:
    handle = serve.run(deployment(whole), name="digits", route_prefix="/digits")
    np.testing.assert_array_equal(handle.remote(images[0]).result()[0], whole(images[0]))
    client = triton.InferenceServerClient(f"127.0.0.1:{serving}/digits")
    assert client.is_model_ready("afterglow")
    given = triton.InferInput("image", [1, 1, 8, 8], "FP32")
    given.set_data_from_numpy(images[1])
    answer = client.infer("afterglow", [given])
    np.testing.assert_array_equal(answer.as_numpy("probabilities"), whole(images[1]))
    with pytest.raises(InferenceServerException, match="no model 'other'"):
        client.infer("other", [given])
    client.close()


def replicas_of(name: str) -> int:
    """The replicas of an application that run."""
    deployed = serve.status().applications[name].deployments["afterglow"]
    return deployed.replica_states.get("RUNNING", 0)


@pytest.mark.slow
def test_replicas_become_more_under_load_and_fewer_without(
    serving: int, whole: CompiledModel, images: list[np.ndarray]
) -> None:
    eager = {"target_ongoing_requests": 1, "upscale_delay_s": 0.2, "downscale_delay_s": 0.5}
    eager |= {"metrics_interval_s": 0.1, "look_back_period_s": 0.5}
    app = deployment(whole, replicas=(1, 2), autoscaling=eager)
    handle = serve.run(app, name="scaled", route_prefix="/scaled")
    assert replicas_of("scaled") == 1
    until, most = time.monotonic() + 60, 1
    while most < 2 and time.monotonic() < until:
        answers = [handle.remote(image) for image in images[:6]]
        for answer, image in zip(answers, images, strict=False):
            np.testing.assert_array_equal(answer.result()[0], whole(image))
        most = max(most, replicas_of("scaled"))
    assert most == 2
    until = time.monotonic() + 60
    while replicas_of("scaled") > 1 and time.monotonic() < until:
        time.sleep(0.5)
    assert replicas_of("scaled") == 1


def replica_of(model: CompiledModel, folder: Path, **settings: Any) -> ModelReplica:
    """A replica, in this process."""
    model.save(folder / "digest.agc")
    size = (folder / "digest.agc").stat().st_size
    stored = SimpleNamespace(path=lambda: folder / "digest.agc", size=size)
    return ModelReplica(stored, "digits", {"threads": 1, **settings})


def answer_of(replica: ModelReplica, method: str, path: str, body: bytes = b"") -> tuple[int, Any]:
    """What a replica answers over HTTP below the route /here."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return messages.pop() if messages else await asyncio.Event().wait()

    scope = {"type": "http", "method": method, "path": f"/here{path}", "root_path": "/here"}
    request = SimpleNamespace(scope={**scope, "headers": []}, receive=receive)
    answer = asyncio.run(replica(request))
    return answer.status_code, json.loads(answer.body)


def body_of(image: np.ndarray) -> bytes:
    tensor = {"name": "image", "datatype": "FP32", "shape": [1, 1, 8, 8]}
    return json.dumps({"inputs": [tensor | {"data": image.ravel().tolist()}]}).encode()


def test_a_replica_answers_as_the_server_does(
    whole: CompiledModel, images: list[np.ndarray], tmp_path: Path
) -> None:
    replica = replica_of(whole, tmp_path)
    status, answer = answer_of(replica, "POST", INFER, body_of(images[0]))
    assert status == 200
    found = answer["outputs"][0]["data"]
    np.testing.assert_allclose(found, whole(images[0]).ravel(), rtol=1e-6)
    assert answer_of(replica, "GET", "/v2/health/ready") == (200, {"ready": True})
    assert answer_of(replica, "GET", "/v2/models/digits")[1]["inputs"][0]["name"] == "image"
    (outputs,) = asyncio.run(replica(image=images[1]))
    np.testing.assert_array_equal(outputs, whole(images[1]))


@pytest.mark.parametrize(
    ("path", "body", "status", "why"),
    [
        ("INFER", b"{", 400, "the body is not JSON"),
        ("INFER", b'{"inputs": []}', 400, "'image' is missing"),
        ("/v2/models/other/infer", b"{}", 404, "there is no model 'other'"),
        ("/v2/repository/models/digits/unload", b"{}", 501, "does not let clients load and unload"),
        ("/nothing", b"{}", 404, "there is nothing at this path"),
    ],
)
def test_bad_requests_are_answered_with_the_reason(
    whole: CompiledModel, tmp_path: Path, path: str, body: bytes, status: int, why: str
) -> None:
    replica = replica_of(whole, tmp_path)
    found, answer = answer_of(replica, "POST", path.replace("INFER", INFER), body)
    assert found == status
    assert why in answer["error"]


def test_wrong_calls_of_a_handle_are_the_errors_of_the_model(
    whole: CompiledModel, tmp_path: Path
) -> None:
    replica = replica_of(whole, tmp_path)
    with pytest.raises(UsageError, match="no input 'picture'"):
        asyncio.run(replica(picture=np.zeros((1, 1, 8, 8), np.float32)))


def test_wrong_settings_are_said(whole: CompiledModel) -> None:
    with pytest.raises(UsageError, match="cannot be named 'a b'"):
        deployment(whole, name="a b")
    with pytest.raises(UsageError, match="autoscaling needs bounds, got replicas=2"):
        deployment(whole, replicas=2, autoscaling={"target_ongoing_requests": 1})
