"""The gRPC protocol, as tritonclient speaks it."""

from __future__ import annotations

import queue

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from afterglow.serve.grpc_server import ANSWERS
from afterglow.serve.grpc_tensors import MESSAGES, PROTOCOL
from tests.serve.models import DTYPES
from tests.serve.test_http_app import sample


@pytest.fixture
def client(server):
    made = triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")
    yield made
    made.close()


def given(name, value, datatype="FP32"):
    made = triton.InferInput(name, value.shape, datatype)
    made.set_data_from_numpy(value)
    return made


def same_fields(ours, theirs):
    own = {field.name: field for field in theirs.fields}
    for field in ours.fields:
        other = own[field.name]
        facts = ("number", "type", "is_repeated")
        assert all(getattr(field, f) == getattr(other, f) for f in facts), field.full_name
        if field.message_type is not None:
            same_fields(field.message_type, other.message_type)


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_are_those_of_other_clients(name):
    theirs = getattr(service_pb2, name, None)
    if theirs is not None:
        same_fields(MESSAGES[name].DESCRIPTOR, theirs.DESCRIPTOR)


def test_every_method_is_answered():
    assert {m.name for m in PROTOCOL.methods if not m.is_stream} == set(ANSWERS)


def test_the_server_and_its_models_say_what_they_are(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("pair")
    assert not client.is_model_ready("nothing")
    assert client.get_server_metadata().name == "afterglow"
    assert [t.name for t in client.get_model_metadata("pair").outputs] == ["s", "d"]
    assert list(client.get_model_config("pair").config.input[0].dims) == [2]
    assert client.get_inference_statistics("pair").model_stats[0].name == "pair"
    states = {row.name: row.state for row in client.get_model_repository_index().models}
    assert states["double"] == "READY"
    assert states["broken"] == "UNAVAILABLE"


@pytest.mark.parametrize("datatype", DTYPES.values())
def test_each_datatype_comes_back_as_it_was_sent(client, datatype):
    value = sample(datatype)
    found = client.infer(f"echo_{datatype}", [given("x", value, datatype)]).as_numpy("y")
    if datatype == "BYTES":
        found = np.array([[text.decode() for text in found[0]]], object)
    assert (np.asarray(found) == value).all()


def test_contents_may_be_typed(server):
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        request = service_pb2.ModelInferRequest(model_name="echo_INT8")
        tensor = request.inputs.add(name="x", datatype="INT8", shape=[1, 2])
        tensor.contents.int_contents.extend([-3, 7])
        answer = stub.ModelInfer(request)
        assert np.frombuffer(answer.raw_output_contents[0], np.int8).tolist() == [-3, 7]
        tensor.contents.int_contents[0] = 300
        with pytest.raises(grpc.RpcError) as caught:
            stub.ModelInfer(request)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert caught.value.details() == "input 'x' is INT8 and has numbers that do not fit"


def test_a_stream_answers_in_order_and_goes_on_after_an_error(client):
    answers: queue.Queue = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    value = np.ones((1, 4), np.float32)
    for number, name in enumerate(("double", "nothing", "double")):
        client.async_stream_infer(name, [given("x", value)], request_id=str(number))
    found = [answers.get(timeout=10) for _ in range(3)]
    client.stop_stream()
    assert found[0][0].get_response().id == "0"
    assert "there is no model 'nothing'" in str(found[1][1])
    assert found[2][0].as_numpy("y").tolist() == [[3, 3, 3, 3]]


@pytest.mark.parametrize(
    ("model", "name", "code"),
    [
        ("nothing", "x", "NOT_FOUND"),
        ("double", "q", "INVALID_ARGUMENT"),
        ("broken", "x", "UNAVAILABLE"),
    ],
)
def test_errors_have_their_codes(client, model, name, code):
    with pytest.raises(InferenceServerException) as caught:
        client.infer(model, [given(name, np.ones((1, 4), np.float32))])
    assert caught.value.status() == f"StatusCode.{code}"


def test_bytes_that_are_no_message_are_an_error_of_the_client(server):
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        with pytest.raises(grpc.RpcError) as caught:
            infer(b"\xff\xff\xff", timeout=10)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert caught.value.details() == "the message is not a ModelInferRequest"
        stream = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")
        (answer,) = stream(iter([b"\xff\xff\xff"]), timeout=10)
        assert b"the message is not a ModelInferRequest" in answer
