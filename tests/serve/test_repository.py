"""Models come, change and go while requests run."""

from __future__ import annotations

import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

import afterglow as ag
from afterglow.serve.folder import scan
from afterglow.serve.loading import signature_of
from tests.serve.models import DOUBLE, FIXED, MIXED, TRIPLE, save
from tests.serve.test_http_app import ask, infer, tensor

DIGITS = Path(__file__).parents[2] / "examples/digits/digits.onnx"


def client_of(server):
    return triton.InferenceServerClient(f"127.0.0.1:{server.http_port}")


def answer(server, name, x=(1, 2, 3, 4)):
    status, found = infer(server, name, {"inputs": [tensor(list(x))]})
    assert status == 200, found
    return found["outputs"][0]["data"]


def test_a_folder_is_scanned_without_following_links_out_of_it(tmp_path):
    inside, outside = tmp_path / "models", tmp_path / "outside"
    save(inside, "one.onnx", DOUBLE)
    save(inside, "many/3/model.onnx", DOUBLE)
    save(inside, "many/12/model.onnx", DOUBLE)
    save(inside, "many/latest/model.onnx", DOUBLE)
    save(outside, "secret.onnx", DOUBLE)
    (inside / "link.onnx").symlink_to(outside / "secret.onnx")
    (inside / "folder").symlink_to(outside)
    (inside / "-odd name.onnx").write_bytes(b"")
    (inside / "a.txt").write_text("")
    found = scan(inside, "all")
    assert {name: sorted(versions) for name, versions in found.items()} == {
        "one": ["1"],
        "many": ["12", "3"],
    }
    assert [*scan(inside)["many"]] == ["12"]


def test_a_model_that_was_compiled_is_preferred(tmp_path):
    source = save(tmp_path, "net.onnx", DOUBLE)
    ag.compile(source, dims={"batch": (1, 8)}).save(tmp_path / "net.agc")
    assert scan(tmp_path)["net"]["1"].path.suffix == ".agc"


def test_a_compiled_model_is_served_and_joined(tmp_path, serving):
    source = save(tmp_path / "source", "net.onnx", DOUBLE)
    ag.compile(source, dims={"batch": (1, 4)}).save(tmp_path / "net.agc")
    server = serving()
    assert answer(server, "net") == [2, 4, 6, 8]
    assert client_of(server).get_model_config("net")["max_batch_size"] == 4


@pytest.mark.parametrize("names", [("cpu:0", "cpu:1"), ("left", "right")])
def test_a_partitioned_model_is_served(tmp_path, serving, names):
    """Whatever its devices are called, and more of its requests at once than there are devices."""
    devices = [ag.LogicalDevice(name, "cpu", threads=1) for name in names]
    config = ag.PartitionConfig("throughput")
    model = ag.compile(DIGITS, backend=devices, partition=config)
    model.save(tmp_path / "net.agc")
    server = serving(instances=2)
    images = np.random.default_rng(0).random((12, 1, 1, 8, 8), np.float32)

    def ask_for(image):
        given = tensor(image.ravel().tolist(), [1, 1, 8, 8], name="image")
        status, found = infer(server, "net", {"inputs": [given]})
        return status, found["outputs"][0]["data"]

    with ThreadPoolExecutor(6) as clients:
        for (status, found), image in zip(clients.map(ask_for, images), images, strict=True):
            assert status == 200
            np.testing.assert_allclose(found, model(image).ravel(), rtol=1e-6)


def test_rows_are_joined_only_where_they_do_not_mix(tmp_path, serving):
    save(tmp_path, "mixed.onnx", MIXED)
    save(tmp_path, "fixed.onnx", FIXED)
    server = serving()
    models = server.core.repository.models
    assert models["mixed"].newest.max_batch == 1
    assert models["mixed"].newest.reason == "output 'y' of a row depends on the other rows"
    assert models["fixed"].newest.max_batch == 8  # exported for one row, and served for more
    x = np.arange(12, dtype=np.float32)
    status, found = infer(server, "fixed", {"inputs": [tensor(x.tolist(), [2, 2, 3])]})
    assert (status, found["outputs"][0]["data"]) == (200, x.tolist())
    status, found = infer(server, "mixed", {"inputs": [tensor([1] * 8, [2, 4])]})
    assert (status, found["outputs"][0]["data"]) == (200, [0.5] * 8)


def test_clients_load_and_unload(tmp_path, serving):
    save(tmp_path, "net.onnx", DOUBLE)
    server = serving()
    client = client_of(server)
    client.unload_model("net")
    assert not client.is_model_ready("net")
    with pytest.raises(InferenceServerException, match="not ready: unloaded"):
        client.get_model_metadata("net")
    save(tmp_path, "later.onnx", TRIPLE)
    client.load_model("net")
    client.load_model("later")
    assert answer(server, "later") == [3, 6, 9, 12]
    with pytest.raises(InferenceServerException, match="there is no model 'nothing'"):
        client.load_model("nothing")
    with pytest.raises(InferenceServerException, match="only from the folder of the server"):
        client.load_model("net", config='{"backend": "other"}')


def test_what_is_exported_for_one_row_is_compiled_for_one_row_and_for_more(tmp_path, serving):
    save(tmp_path, "fixed.onnx", FIXED)
    server = serving(max_batch=4)
    model = server.core.repository.find("fixed")
    assert {*server.core.repository.host.models} == {model.key, f"{model.key} of one row"}
    for rows in (1, 2):
        x = np.arange(6.0 * rows, dtype=np.float32)
        status, found = infer(server, "fixed", {"inputs": [tensor(x.tolist(), [rows, 2, 3])]})
        assert (status, found["outputs"][0]["data"]) == (200, x.tolist())


def test_rows_are_joined_as_far_as_a_trial_says_unless_a_number_is_set(tmp_path, serving):
    save(tmp_path, "net.onnx", DOUBLE)
    tried, given = serving(), serving(max_batch=3)
    assert tried.core.repository.find("net").batcher.limits.max_batch in (1, 2, 4, 8)
    assert client_of(tried).get_model_config("net")["max_batch_size"] == 8
    assert given.core.repository.find("net").batcher.limits.max_batch == 3


def test_control_can_be_off(tmp_path, serving):
    save(tmp_path, "net.onnx", DOUBLE)
    server = serving(control=False)
    status, text, _ = ask(server, "POST", "/v2/repository/models/net/unload")
    assert (status, "--no-control" in json.loads(text)["error"]) == (501, True)
    assert answer(server, "net") == [2, 4, 6, 8]


def test_a_changed_file_replaces_the_model_and_no_request_is_dropped(tmp_path, serving):
    save(tmp_path, "net.onnx", DOUBLE)
    server = serving(poll=0.05)
    found, stop = [], threading.Event()

    def ask_again():
        while not stop.is_set():
            found.append(tuple(answer(server, "net")))

    threads = [threading.Thread(target=ask_again) for _ in range(3)]
    for thread in threads:
        thread.start()
    save(tmp_path, "new", TRIPLE)
    os.replace(tmp_path / "new", tmp_path / "net.onnx")
    until = time.monotonic() + 20
    while (3, 6, 9, 12) not in found and time.monotonic() < until:
        time.sleep(0.02)
    stop.set()
    for thread in threads:
        thread.join()
    assert {*found} == {(2, 4, 6, 8), (3, 6, 9, 12)}
    newest = server.core.repository.find("net")
    assert all(name.startswith(newest.key) for name in server.core.repository.host.models)
    assert server.core.repository.find("net").statistics.fail.count == 0


def test_a_file_that_is_broken_leaves_the_model_as_it_was(tmp_path, serving):
    save(tmp_path, "net.onnx", DOUBLE)
    server = serving()
    (tmp_path / "net.onnx").write_bytes(b"nothing")
    with pytest.raises(InferenceServerException, match="cannot be loaded"):
        client_of(server).load_model("net")
    assert answer(server, "net") == [2, 4, 6, 8]


def test_compiled_models_must_be_signed_if_there_is_a_key(tmp_path, serving):
    source = save(tmp_path / "source", "net.onnx", DOUBLE)
    model = ag.compile(source, dims={"batch": (1, 4)})
    key = tmp_path / "key.txt"
    key.write_text("a secret\n")
    for name in ("signed", "unsigned", "forged"):
        model.save(tmp_path / f"{name}.agc")
    (tmp_path / "signed.agc.sig").write_text(signature_of(tmp_path / "signed.agc", b"a secret"))
    (tmp_path / "forged.agc.sig").write_text("0" * 64)
    server = serving(signing_key=key)
    index = {row["name"]: row for row in client_of(server).get_model_repository_index()}
    assert {name: row["state"] for name, row in index.items()} == {
        "signed": "READY",
        "unsigned": "UNAVAILABLE",
        "forged": "UNAVAILABLE",
    }
    assert index["forged"]["reason"] == "forged.agc is not signed with the key of the server"
