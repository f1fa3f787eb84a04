"""The HTTP protocol, as tritonclient and plain clients speak it."""

from __future__ import annotations

import gzip
import http.client
import json
import zlib

import ml_dtypes
import numpy as np
import pytest
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException, shared_memory, triton_to_np_dtype

from tests.serve.models import DTYPES


@pytest.fixture
def client(server):
    made = triton.InferenceServerClient(f"127.0.0.1:{server.http_port}")
    yield made
    made.close()


def ask(server, method, path, body=b"", headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=10)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read(), dict(answer.getheaders())
    finally:
        connection.close()


def infer(server, model, content, **headers):
    status, body, _ = ask(
        server, "POST", f"/v2/models/{model}/infer", json.dumps(content).encode(), headers
    )
    return status, json.loads(body)


def tensor(data, shape=None, datatype="FP32", name="x", **parameters):
    shape = [1, len(data)] if shape is None else shape
    made = {"name": name, "shape": shape, "datatype": datatype, "data": data}
    return made | ({"parameters": parameters} if parameters else {})


def sample(datatype):
    if datatype == "BYTES":
        return np.array([["a", "ü" * 300]], object)
    if datatype == "BF16":
        return np.array([[1.5, -2]], ml_dtypes.bfloat16)
    return np.array([[1, 0]], triton_to_np_dtype(datatype))


def test_the_server_says_what_it_is(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.get_server_metadata()["name"] == "afterglow"
    assert "binary_tensor_data" in client.get_server_metadata()["extensions"]


def test_a_model_says_what_it_takes(client):
    assert client.get_model_metadata("pair") == {
        "name": "pair",
        "versions": ["1"],
        "platform": "afterglow",
        "inputs": [
            {"name": "a", "datatype": "FP32", "shape": [-1, 2]},
            {"name": "b", "datatype": "FP32", "shape": [-1, 2]},
        ],
        "outputs": [
            {"name": "s", "datatype": "FP32", "shape": [-1, 2]},
            {"name": "d", "datatype": "FP32", "shape": [-1, 2]},
        ],
    }


def test_a_configuration_leaves_the_rows_out(client):
    config = client.get_model_config("pair")
    assert config["max_batch_size"] == 8
    assert config["input"][0] == {"name": "a", "data_type": "TYPE_FP32", "dims": [2]}


@pytest.mark.parametrize("datatype", DTYPES.values())
@pytest.mark.parametrize("binary", [True, False])
def test_each_datatype_comes_back_as_it_was_sent(client, datatype, binary):
    if datatype in ("FP16", "BF16") and not binary:
        pytest.skip("tritonclient sends these as bytes only")
    value = sample(datatype)
    given = triton.InferInput("x", value.shape, datatype)
    given.set_data_from_numpy(value, binary_data=binary)
    wanted = triton.InferRequestedOutput("y", binary_data=binary)
    found = client.infer(f"echo_{datatype}", [given], outputs=[wanted]).as_numpy("y")
    if datatype == "BYTES":
        found = np.array([[t.decode() if isinstance(t, bytes) else t for t in found[0]]], object)
    assert (np.asarray(found) == value).all()


@pytest.mark.parametrize("datatype", ["FP16", "BF16"])
def test_narrow_floats_may_be_numbers_of_json(server, datatype):
    status, answer = infer(
        server, f"echo_{datatype}", {"inputs": [tensor([1.5, -2], datatype=datatype)]}
    )
    assert (status, answer["outputs"][0]["data"]) == (200, [1.5, -2])


def test_outputs_can_be_chosen_and_all_be_binary(server):
    content = {"inputs": [tensor([1, 2], name="a"), tensor([3, 5], name="b")], "id": "seven"}
    status, answer = infer(server, "pair", content | {"outputs": [{"name": "d"}]})
    assert status == 200
    assert answer == {
        "model_name": "pair",
        "model_version": "1",
        "id": "seven",
        "outputs": [{"name": "d", "datatype": "FP32", "shape": [1, 2], "data": [-2, -3]}],
    }
    content["parameters"] = {"binary_data_output": True}
    _, body, headers = ask(server, "POST", "/v2/models/pair/infer", json.dumps(content).encode())
    length = int(headers["inference-header-content-length"])
    assert np.frombuffer(body[length:], np.float32).tolist() == [4, 7, -2, -3]


def test_versions_have_their_own_address(server):
    x = [1, 2, 3, 4]
    for path, factor in (("double/versions/1", 2), ("double/versions/2", 3), ("double", 3)):
        status, answer = infer(server, path, {"inputs": [tensor(x)]})
        assert answer["outputs"][0]["data"] == [factor * each for each in x], path
        assert status == 200
    status, answer = infer(server, "double/versions/3", {"inputs": [tensor(x)]})
    assert (status, answer) == (404, {"error": "model 'double' has no version '3'"})


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_bodies_may_be_compressed_both_ways(client, encoding):
    value = np.ones((1, 2), np.float32)
    given = triton.InferInput("x", value.shape, "FP32")
    given.set_data_from_numpy(value)
    answer = client.infer(
        "echo_FP32",
        [given],
        request_compression_algorithm=encoding,
        response_compression_algorithm=encoding,
    )
    assert (answer.as_numpy("y") == value).all()


def test_a_body_that_grows_too_large_when_it_is_decompressed_is_refused(server):
    body = gzip.compress(bytes(50 << 20))
    status, answer, _ = ask(
        server, "POST", "/v2/models/fixed/infer", body, {"Content-Encoding": "gzip"}
    )
    assert (status, json.loads(answer)["error"]) == (413, "the body is larger than 1,048,576 bytes")


def test_statistics_count_requests_and_rows(client):
    value = np.ones((3, 2), np.float32)
    given = triton.InferInput("x", value.shape, "FP32")
    given.set_data_from_numpy(value)
    before = client.get_inference_statistics("echo_FP32")["model_stats"][0]
    client.infer("echo_FP32", [given])
    after = client.get_inference_statistics("echo_FP32")["model_stats"][0]
    assert int(after["inference_count"]) == int(before["inference_count"]) + 3
    assert int(after["execution_count"]) == int(before["execution_count"]) + 1
    assert client.get_inference_statistics()["model_stats"]


def test_the_index_has_the_reason_of_what_is_not_ready(client):
    index = {(row["name"], row["version"]): row for row in client.get_model_repository_index()}
    assert index["double", "2"]["state"] == "READY"
    broken = index["broken", "1"]
    assert broken["state"] == "UNAVAILABLE"
    assert "broken.onnx" in broken["reason"] or "ONNX" in broken["reason"]


@pytest.mark.parametrize("method", ["get_trace_settings", "get_log_settings"])
def test_what_is_not_supported_says_so(client, method):
    with pytest.raises(InferenceServerException, match="does not support it"):
        getattr(client, method)()


ERRORS = [
    (
        "pair",
        {"inputs": [tensor([1, 2], name="a")]},
        400,
        "input 'b' is missing; the model takes a, b",
    ),
    (
        "pair",
        {"inputs": [tensor([1, 2], name="z")]},
        400,
        "model 'pair' has no input 'z'; it has a, b",
    ),
    (
        "echo_FP32",
        {"inputs": [tensor([1, 2])], "outputs": [{"name": "q"}]},
        400,
        "model 'echo_FP32' has no output 'q'; it has y",
    ),
    (
        "echo_FP32",
        {"inputs": [tensor([1, 2, 3], [1, 2])]},
        400,
        "input 'x' has 3 elements, its shape [1, 2] has 2",
    ),
    (
        "echo_FP32",
        {"inputs": [tensor([1, 2, 3])]},
        400,
        "input 'x' has the shape [-1, 2], got [1, 3]; -1 stands for any extent",
    ),
    ("echo_FP32", {"inputs": [tensor(["1", "2"])]}, 400, "input 'x' is FP32 and has other data: 1"),
    (
        "echo_INT8",
        {"inputs": [tensor([1, 300], datatype="INT8")]},
        400,
        "input 'x' is INT8 and has numbers that do not fit",
    ),
    (
        "echo_FP32",
        {"inputs": [tensor([1, 2], datatype="FP64")]},
        400,
        "input 'x' is FP32, got float64",
    ),
    (
        "echo_FP32",
        {"inputs": [tensor([1, 2], datatype="INT4")]},
        400,
        "input 'x' has the datatype 'INT4', which is not known",
    ),
    (
        "echo_FP32",
        {"inputs": [tensor([1, 2], [-1, 2])]},
        400,
        "input 'x' has the extent '-1': extents are 0 or more",
    ),
    (
        "echo_FP32",
        {"inputs": [tensor([], [0, 1 << 62])]},
        400,
        "input 'x' has a shape of more than 1,099,511,627,776 elements",
    ),
    (
        "echo_FP32",
        {"inputs": [tensor([[1], [1, 2]], [1, 2])]},
        400,
        "input 'x' has lists of different lengths as its data",
    ),
    ("echo_FP32", {"inputs": 7}, 400, "the request needs a list of inputs"),
    ("echo_FP32", [1], 400, "the body must be an object of JSON"),
    (
        "lookup",
        {"inputs": [tensor([9], [1, 1], "INT64", "i")]},
        400,
        "gather: indices must be from -3 to 2, got 9",
    ),
    ("nothing", {}, 404, "there is no model 'nothing'"),
    ("../../etc/passwd", {}, 404, "there is nothing at this path"),
    ("%2e%2e%2fdouble", {}, 404, "there is nothing at this path"),
    ("broken", {}, 503, "model 'broken' is not ready"),
    (
        "echo_FP32",
        {
            "inputs": [tensor([1, 2])],
            "outputs": [{"name": "y", "parameters": {"classification": 3}}],
        },
        400,
        "output 'y': classification is not supported",
    ),
    (
        "echo_FP32",
        {"inputs": [tensor([1, 2])], "parameters": {"priority": "high"}},
        400,
        "the priority must be a whole number up to 10, got 'high'",
    ),
    (
        "echo_FP32",
        {"inputs": [tensor([1, 2])], "parameters": {"timeout": -1}},
        400,
        "the timeout must be microseconds",
    ),
    (
        "echo_FP32",
        {"inputs": [tensor([1, 2])], "parameters": {"sequence_id": 7}},
        400,
        "sequences are not supported",
    ),
]


@pytest.mark.parametrize(("model", "content", "status", "message"), ERRORS)
def test_errors_say_what_is_wrong(server, model, content, status, message):
    found, answer = infer(server, model, content)
    assert message in answer["error"]
    assert found == status


def test_bodies_that_are_not_what_headers_say(server):
    path = "/v2/models/echo_FP32/infer"
    cases = [
        (b"{", {}, 400, "the body is not JSON"),
        (b"[" * 100_000, {}, 400, "the body is not JSON"),
        (
            b"{}",
            {"Content-Encoding": "br"},
            415,
            "'br' are not supported; send gzip, deflate or none",
        ),
        (b"{}", {"Content-Encoding": "gzip"}, 400, "the body is not gzip"),
        (zlib.compress(b"{}")[:5], {"Content-Encoding": "deflate"}, 400, "ends before"),
        (b"{}", {"Inference-Header-Content-Length": "9"}, 400, "at most the length of the body"),
        (b"{}", {"Inference-Header-Content-Length": "-1"}, 400, "at most the length of the body"),
        (bytes(2 << 20), {}, 413, "larger than 1,048,576 bytes"),
    ]
    for body, headers, status, message in cases:
        found, answer, _ = ask(server, "POST", path, body, headers)
        assert message in json.loads(answer)["error"]
        assert found == status


def test_a_wrong_method_says_which_is_right(server):
    status, answer, _ = ask(server, "DELETE", "/v2/models/double")
    assert (status, json.loads(answer)["error"]) == (405, "DELETE is not for this path; send GET")


def test_metrics_and_the_status_page(server):
    status, text, headers = ask(server, "GET", "/metrics")
    assert status == 200
    assert b'afterglow_latency_seconds_bucket{model="double",version="2",le="+Inf"}' in text
    assert headers["content-type"].startswith("text/plain")
    status, page, _ = ask(server, "GET", "/")
    assert status == 200
    assert b"<h1>Afterglow</h1>" in page
    assert b"://" not in page  # it needs no other address
    status, answer, _ = ask(server, "GET", "/status")
    assert {row["name"] for row in json.loads(answer)["models"]} >= {"double", "broken"}


def test_shared_memory_has_inputs_and_outputs(client):
    value = np.array([[3, 4]], np.float32)
    source = shared_memory.create_shared_memory_region("in", "/afterglow_test_in", value.nbytes)
    result = shared_memory.create_shared_memory_region("out", "/afterglow_test_out", value.nbytes)
    try:
        shared_memory.set_shared_memory_region(source, [value])
        client.register_system_shared_memory("in", "/afterglow_test_in", value.nbytes)
        client.register_system_shared_memory("out", "/afterglow_test_out", value.nbytes)
        given = triton.InferInput("x", value.shape, "FP32")
        given.set_shared_memory("in", value.nbytes)
        wanted = triton.InferRequestedOutput("y")
        wanted.set_shared_memory("out", value.nbytes)
        client.infer("echo_FP32", [given], outputs=[wanted])
        found = shared_memory.get_contents_as_numpy(result, np.float32, value.shape)
        assert (found == value).all()
        assert [row["name"] for row in client.get_system_shared_memory_status()] == ["in", "out"]
    finally:
        client.unregister_system_shared_memory()
        shared_memory.destroy_shared_memory_region(source)
        shared_memory.destroy_shared_memory_region(result)
