"""Requests as OpenTelemetry traces, down to the kernels of their runs."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import tritonclient.grpc as grpc_client

from afterglow.serve.telemetry import Telemetry
from afterglow.serve.tensors import InferRequest
from tests.serve.models import DOUBLE, PAIR, save
from tests.serve.test_http_app import infer, tensor

pytest.importorskip("opentelemetry.sdk", reason="pip install opentelemetry-sdk")

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import (
    InMemorySpanExporter,
)

ROW = np.ones((1, 4), np.float32)
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
PLAIN = {"inputs": [tensor([1, 2, 3, 4])]}
TRACED = PLAIN | {"parameters": {"trace_kernels": True}}


@pytest.fixture
def traced(tmp_path, serving):
    """Makes a server of the model `net`; gives it with what its spans are exported to."""

    def make(body=DOUBLE, **flags):
        save(tmp_path, "net.onnx", body)
        server, exporter = serving(**flags), InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        server.core.telemetry = Telemetry(provider)
        return server, exporter

    return make


def tree(exporter):
    """The spans by name, each with the name of its parent."""
    spans = exporter.get_finished_spans()
    names = {span.context.span_id: span.name for span in spans}
    return {span.name: names.get(span.parent and span.parent.span_id) for span in spans}


def test_a_request_is_a_trace_of_what_was_done_for_it(traced):
    server, exporter = traced()
    assert infer(server, "net", PLAIN, traceparent=PARENT)[0] == 200
    parts = dict.fromkeys(("queue", "compute", "respond"), "infer net")
    assert tree(exporter) == {"infer net": None, **parts}
    by_name = {span.name: span for span in exporter.get_finished_spans()}
    root = by_name["infer net"]
    assert dict(root.attributes) == {"model": "net", "rows": 1}
    assert f"{root.context.trace_id:032x}" == TRACE
    assert f"{root.parent.span_id:016x}" == PARENT.split("-")[2]
    assert root.start_time <= by_name["queue"].start_time <= by_name["compute"].start_time
    assert by_name["compute"].end_time <= by_name["respond"].end_time <= root.end_time


@pytest.mark.parametrize("inline", [True, False])
def test_kernels_are_below_compute_if_a_request_wants_them(traced, inline):
    server, exporter = traced(PAIR)
    server.core.repository.find("net").is_inline = inline
    a, b = (tensor([1, 2], name=name) for name in "ab")
    content = {"inputs": [a, b], "parameters": {"trace_kernels": True}}
    status, answer = infer(server, "net", content)
    assert status == 200
    assert [output["data"] for output in answer["outputs"]] == [[2, 4], [0, 0]]
    kernels = [span for span in exporter.get_finished_spans() if "node" in span.attributes]
    assert kernels
    compute = next(span for span in exporter.get_finished_spans() if span.name == "compute")
    for kernel in kernels:
        assert kernel.parent.span_id == compute.context.span_id
        assert kernel.attributes["device"] == "cpu"
        assert compute.start_time <= kernel.start_time <= kernel.end_time <= compute.end_time
    assert {name for kernel in kernels for name in kernel.attributes["node"].split(", ")} >= {"s"}


def test_of_requests_that_run_together_only_those_show_kernels_that_want_them(traced):
    server, exporter = traced(max_batch=4, max_delay=0.2)
    batcher = server.core.repository.find("net").batcher

    async def both():
        asked = (InferRequest("net", inputs={"x": ROW}, is_traced=each) for each in (True, False))
        await asyncio.gather(*map(server.core.infer, asked))

    asyncio.run_coroutine_threadsafe(both(), server._loop).result(10)
    assert [*batcher.statistics.batches] == [2]
    spans = exporter.get_finished_spans()
    assert sum(span.name == "infer net" for span in spans) == 2
    parents = {span.parent.span_id for span in spans if "node" in span.attributes}
    assert len(parents) == 1


def test_over_grpc(traced):
    server, exporter = traced(grpc_port=0)
    client = grpc_client.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")
    value = grpc_client.InferInput("x", [1, 4], "FP32")
    value.set_data_from_numpy(ROW)
    wanted = {"trace_kernels": True}
    client.infer("net", [value], headers={"traceparent": PARENT}, parameters=wanted)
    client.close()
    (root,) = (span for span in exporter.get_finished_spans() if span.name == "infer net")
    assert f"{root.context.trace_id:032x}" == TRACE
    assert any("node" in span.attributes for span in exporter.get_finished_spans())


def test_errors_are_spans_and_those_of_the_server_are_marked(traced):
    server, exporter = traced(max_batch=1)
    assert infer(server, "net", {"inputs": [tensor([1, 2])]})[0] == 400
    served = server.core.repository.find("net")
    served.batcher._submit = lambda *_: 1 / 0
    assert infer(server, "net", PLAIN)[0] == 500
    first, second = exporter.get_finished_spans()
    assert first.attributes["error.type"] == "invalid"
    assert first.status.is_unset
    assert second.attributes["error.type"] == "internal"
    assert not second.status.is_ok


def test_without_a_tracer_kernels_are_refused_and_all_else_is_answered(tmp_path, serving):
    save(tmp_path, "net.onnx", DOUBLE)
    server = serving()
    assert infer(server, "net", PLAIN, traceparent=PARENT)[0] == 200
    status, answer = infer(server, "net", TRACED)
    assert status == 501
    assert "this server records no traces; start it with OpenTelemetry" in answer["error"]
    status, answer = infer(server, "net", PLAIN | {"parameters": {"trace_kernels": "yes"}})
    assert (status, answer) == (400, {"error": "trace_kernels must be true or false, got 'yes'"})
