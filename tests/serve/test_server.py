"""The process: it starts, ends gracefully, and answers only whom it should."""

from __future__ import annotations

import http.client
import io
import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpc_client

from afterglow.serve.config import read_config
from afterglow.serve.logs import Log
from afterglow.serve.server import Server
from afterglow.support.errors import UsageError
from tests.serve.models import DOUBLE, save
from tests.serve.test_http_app import ask, infer, tensor


def slow_down(server, name, seconds):
    """Have each run of a model take some time."""
    served = server.core.repository.find(name)
    submit = served.batcher._submit

    def slow(feed, priority, trace):
        found = submit(feed, priority, trace)
        made = type(found)()
        threading.Timer(seconds, lambda: made.set_result(found.result())).start()
        return made

    served.batcher._submit = slow


def test_the_command_serves_and_sigterm_ends_it(tmp_path):
    save(tmp_path, "net.onnx", DOUBLE)
    command = [sys.executable, "-m", "afterglow", "serve", str(tmp_path), "--http-port", "0"]
    process = subprocess.Popen(
        [*command, "--grpc-port", "-1", "--threads", "1"], stderr=subprocess.PIPE, text=True
    )
    try:
        events = {}
        while "ready" not in events:
            line = json.loads(process.stderr.readline())
            events[line["event"]] = line
        address = f"http://127.0.0.1:{events['open']['http']}/v2/health/ready"
        assert urllib.request.urlopen(address, timeout=10).status == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()
    rest = [json.loads(line)["event"] for line in process.stderr]
    assert rest == ["draining", "ended"]


def test_what_is_in_flight_is_answered_and_what_is_new_refused(tmp_path, serving):
    save(tmp_path, "net.onnx", DOUBLE)
    server = serving()
    slow_down(server, "net", 0.4)
    found = []
    first = threading.Thread(
        target=lambda: found.append(infer(server, "net", {"inputs": [tensor([1, 2, 3, 4])]}))
    )
    first.start()
    time.sleep(0.15)
    ending = threading.Thread(target=server.stop)
    ending.start()
    time.sleep(0.1)
    status, answer = infer(server, "net", {"inputs": [tensor([1, 2, 3, 4])]})
    assert (status, answer) == (503, {"error": "the server is shutting down"})
    assert ask(server, "GET", "/v2/health/ready")[0] == 503
    ending.join()
    first.join()
    assert found[0][0] == 200


def test_a_client_that_vanishes_stops_costing(tmp_path, serving):
    save(tmp_path, "net.onnx", DOUBLE)
    server = serving(max_batch=1)
    slow_down(server, "net", 0.5)
    body = json.dumps({"inputs": [tensor([1, 2, 3, 4])]}).encode()
    head = f"POST /v2/models/net/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    batcher = server.core.repository.find("net").batcher
    clients = [socket.create_connection(("127.0.0.1", server.http_port)) for _ in range(4)]
    for client in clients:
        client.sendall(head.encode() + body)
    time.sleep(0.15)
    assert batcher.waiting == 3
    for client in clients:
        client.close()
    time.sleep(0.1)
    assert batcher.waiting == 0
    assert batcher.statistics.failures == {"cancelled": 4}


def test_too_many_requests_are_refused_with_429(tmp_path, serving):
    save(tmp_path, "net.onnx", DOUBLE)
    server = serving(max_batch=1, max_queue=2)
    slow_down(server, "net", 0.3)
    statuses = []

    def one():
        statuses.append(infer(server, "net", {"inputs": [tensor([1, 2, 3, 4])]})[0])

    threads = [threading.Thread(target=one) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200, 200, 200, 429, 429, 429]


def test_deadlines_of_both_protocols(tmp_path, serving):
    save(tmp_path, "net.onnx", DOUBLE)
    server = serving(max_batch=1, grpc_port=0)
    slow_down(server, "net", 0.4)
    content = {"inputs": [tensor([1, 2, 3, 4])]}
    first = threading.Thread(target=infer, args=(server, "net", content))
    first.start()
    time.sleep(0.1)
    status, answer = infer(server, "net", content | {"parameters": {"timeout": 50_000}})
    assert (status, answer) == (504, {"error": "the request did not begin in time"})
    client = grpc_client.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")
    value = grpc_client.InferInput("x", [1, 4], "FP32")
    value.set_data_from_numpy(np.ones((1, 4), np.float32))
    with pytest.raises(Exception, match=r"(?i)deadline|in time"):
        client.infer("net", [value], client_timeout=0.05)
    first.join()
    client.close()


def test_tokens_are_asked_for_but_not_by_probes(tmp_path, serving):
    save(tmp_path, "net.onnx", DOUBLE)
    (tmp_path / "tokens").write_text("one\n\ntwo\n")
    server = serving(token_file=tmp_path / "tokens", grpc_port=0)
    assert ask(server, "GET", "/v2/health/ready")[0] == 200
    for header in ({}, {"Authorization": "Bearer three"}, {"Authorization": "Basic one"}):
        status, answer, _ = ask(server, "GET", "/v2/models/net", headers=header)
        assert status == 401
        assert "Authorization: Bearer TOKEN" in json.loads(answer)["error"]
    assert ask(server, "GET", "/v2", headers={"Authorization": "Bearer two"})[0] == 200
    client = grpc_client.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")
    assert client.is_server_ready()
    with pytest.raises(Exception, match="a token is needed"):
        client.get_server_metadata()
    assert client.get_server_metadata(headers={"authorization": "Bearer one"}).name == "afterglow"
    client.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    files = ["-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    try:
        subprocess.run([*command, *names, *files], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("there is no openssl to make a certificate with")
    return folder


def test_tls_of_both_protocols(tmp_path, serving, certificate):
    save(tmp_path, "net.onnx", DOUBLE)
    files = {"tls_cert": certificate / "cert.pem", "tls_key": certificate / "key.pem"}
    server = serving(grpc_port=0, **files)
    context = ssl.create_default_context(cafile=str(certificate / "cert.pem"))
    connection = http.client.HTTPSConnection("127.0.0.1", server.http_port, context=context)
    connection.request("GET", "/v2")
    assert json.loads(connection.getresponse().read())["name"] == "afterglow"
    connection.close()
    credentials = grpc.ssl_channel_credentials((certificate / "cert.pem").read_bytes())
    client = grpc_client.InferenceServerClient(
        f"localhost:{server.grpc_port}", ssl=True, creds=credentials
    )
    assert client.is_server_live()
    client.close()


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_port_that_is_taken(tmp_path, protocol, capfd):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        flags = {"models": tmp_path, "http_port": 0, "grpc_port": -1, f"{protocol}_port": port}
        server = Server(read_config(None, flags), Log(io.StringIO()))
        with pytest.raises(UsageError) as caught:
            server.start()
    assert str(caught.value) == (
        f"error: cannot listen at 127.0.0.1:{port}: address already in use\n"
        f"  help: choose another --{protocol}-port"
    )
    assert capfd.readouterr().err == ""


def test_a_folder_without_models_is_told(tmp_path):
    log = io.StringIO()
    flags = {"models": tmp_path, "http_port": 0, "grpc_port": -1}
    with Server(read_config(None, flags), Log(log)):
        pass
    events = {line["event"]: line for line in map(json.loads, log.getvalue().splitlines())}
    assert events["no models found"]["folder"] == str(tmp_path)
    assert "NAME.onnx" in events["no models found"]["known"]
