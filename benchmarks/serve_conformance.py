"""What any server of the Open Inference Protocol answers: a script for one or several of them.

`python -m benchmarks.serve_conformance http://127.0.0.1:8000 --model NAME [--grpc HOST:PORT]`
asks a server, and prints one line a check. The model takes one FP32 input of shape [-1, 4] or
[1, 4] and gives back twice its input, so that answers of different servers can be compared.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client

WIDTH = 4
VALUE = np.array([[1.5, -2, 0, 3]], np.float32)


@dataclass(frozen=True)
class Check:
    """A question, and whether the answer was right."""

    name: str
    passed: bool
    answer: str


@dataclass
class Subject:
    """A server to be asked."""

    url: str
    model: str
    grpc: str | None = None
    checks: list[Check] = field(default_factory=list)

    def ask(self, method: str, path: str, content: Any = None) -> tuple[int, Any]:
        """The status and the JSON of an answer over HTTP."""
        address = urlsplit(self.url)
        connection = HTTPConnection(address.hostname or "", address.port, timeout=10)
        body = None if content is None else json.dumps(content)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        try:
            return answer.status, json.loads(text) if text else None
        except ValueError:
            return answer.status, text.decode(errors="replace")

    def check(self, name: str, question: Callable[[], tuple[bool, str]]) -> None:
        """Ask a question and note whether the answer is right."""
        try:
            passed, answer = question()
        except Exception as error:  # whatever a client raises is an answer that is not right
            passed, answer = False, f"{type(error).__name__}: {error}"
        self.checks.append(Check(name, passed, answer))


def request(data: list[float], shape: list[int], **more: Any) -> dict[str, Any]:
    """The JSON of a request."""
    tensor = {"name": more.pop("name", "x"), "shape": shape, "datatype": "FP32", "data": data}
    return {"inputs": [tensor | more.pop("tensor", {})], **more}


def over_http(subject: Subject) -> None:
    """Health, metadata, inference and errors, as plain JSON."""
    model = f"/v2/models/{subject.model}"

    def status(method: str, path: str, *expected: int, content: Any = None) -> Any:
        def question() -> tuple[bool, str]:
            found, _ = subject.ask(method, path, content)
            return found in expected, str(found if found in expected else f"{found}")

        return question

    subject.check("live", status("GET", "/v2/health/live", 200))
    subject.check("ready", status("GET", "/v2/health/ready", 200))
    subject.check("model ready", status("GET", f"{model}/ready", 200))
    subject.check("server metadata", lambda: _has(subject, "/v2", "name", "version", "extensions"))
    subject.check("model metadata", lambda: _has(subject, model, "name", "platform", "inputs"))
    subject.check("infer, flat list", lambda: _doubles(subject, request([1, 2, 3, 4], [1, 4])))
    subject.check("infer, nested list", lambda: _doubles(subject, request([[1, 2, 3, 4]], [1, 4])))
    subject.check("the id comes back", lambda: _echoes_id(subject))
    wrong = {
        "unknown model": ("/v2/models/there-is-none/infer", request([1], [1, 1])),
        "unknown input": (f"{model}/infer", request([1, 2, 3, 4], [1, 4], name="nothing")),
        "too few elements": (f"{model}/infer", request([1, 2], [1, 4])),
        "no inputs": (f"{model}/infer", {}),
        "unknown datatype": (
            f"{model}/infer",
            request([1, 2, 3, 4], [1, 4], tensor={"datatype": "FP33"}),
        ),
    }
    for name, (path, content) in wrong.items():
        subject.check(
            f"{name} is an error of the client", lambda p=path, c=content: _refused(subject, p, c)
        )


def _has(subject: Subject, path: str, *keys: str) -> tuple[bool, str]:
    status, found = subject.ask("GET", path)
    return status == 200 and all(key in found for key in keys), f"{status}, {', '.join(keys)}"


def _doubles(subject: Subject, content: Any) -> tuple[bool, str]:
    status, found = subject.ask("POST", f"/v2/models/{subject.model}/infer", content)
    data = np.array(found["outputs"][0]["data"]).ravel().tolist() if status == 200 else found
    return data == [2, 4, 6, 8], f"{status}, {data}"


def _echoes_id(subject: Subject) -> tuple[bool, str]:
    content = request([1, 2, 3, 4], [1, 4], id="forty-two")
    _, found = subject.ask("POST", f"/v2/models/{subject.model}/infer", content)
    return found.get("id") == "forty-two", str(found.get("id"))


def _refused(subject: Subject, path: str, content: Any) -> tuple[bool, str]:
    status, found = subject.ask("POST", path, content)
    return 400 <= status < 500, "4xx" if 400 <= status < 500 else f"{status} {str(found)[:80]}"


def with_triton_http(subject: Subject) -> None:
    """The same through tritonclient, with tensors as bytes and as JSON."""
    client = http_client.InferenceServerClient(subject.url.removeprefix("http://"))
    subject.check("tritonclient http: live", lambda: (client.is_server_live(), "live"))
    for binary in (True, False):
        name = "bytes" if binary else "JSON"

        def infer(binary: bool = binary) -> tuple[bool, str]:
            given = http_client.InferInput("x", VALUE.shape, "FP32")
            given.set_data_from_numpy(VALUE, binary_data=binary)
            wanted = http_client.InferRequestedOutput("y", binary_data=binary)
            found = client.infer(subject.model, [given], outputs=[wanted]).as_numpy("y")
            return bool((found == 2 * VALUE).all()), str(found.tolist())

        subject.check(f"tritonclient http: infer, {name}", infer)
    subject.check(
        "tritonclient http: metadata",
        lambda: (client.get_model_metadata(subject.model)["name"] == subject.model, "name"),
    )
    client.close()


def with_triton_grpc(subject: Subject) -> None:
    """The same over gRPC."""
    if subject.grpc is None:
        return
    client = grpc_client.InferenceServerClient(subject.grpc)

    def infer() -> tuple[bool, str]:
        given = grpc_client.InferInput("x", VALUE.shape, "FP32")
        given.set_data_from_numpy(VALUE)
        found = client.infer(subject.model, [given]).as_numpy("y")
        return bool((found == 2 * VALUE).all()), str(found.tolist())

    def unknown() -> tuple[bool, str]:
        given = grpc_client.InferInput("x", VALUE.shape, "FP32")
        given.set_data_from_numpy(VALUE)
        try:
            client.infer("there-is-none", [given])
        except grpc_client.InferenceServerException as error:
            return error.status() == "StatusCode.NOT_FOUND", str(error.status())
        return False, "it was answered"

    subject.check("tritonclient grpc: live", lambda: (client.is_server_live(), "live"))
    subject.check(
        "tritonclient grpc: ready", lambda: (client.is_model_ready(subject.model), "ready")
    )
    subject.check("tritonclient grpc: infer", infer)
    subject.check("tritonclient grpc: unknown model", unknown)
    client.close()


def conformance(subject: Subject) -> list[Check]:
    """All checks of a server."""
    over_http(subject)
    with_triton_http(subject)
    with_triton_grpc(subject)
    return subject.checks


def lines(checks: list[Check]) -> Iterator[str]:
    """A line for each check."""
    for check in checks:
        yield f"{'ok  ' if check.passed else 'FAIL'}  {check.name:45}  {check.answer}"


def main() -> None:
    """Check the server that arguments name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--model", default="double")
    parser.add_argument("--grpc")
    given = parser.parse_args()
    checks = conformance(Subject(given.url.rstrip("/"), given.model, given.grpc))
    print("\n".join(lines(checks)))
    sys.exit(any(not check.passed for check in checks))


if __name__ == "__main__":
    main()
