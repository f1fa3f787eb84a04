"""A server that is asked, and what its answers were."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import numpy as np

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

    def unfit(self) -> str:
        """Why the answers of its model could not be compared; empty if they can."""
        try:
            status, found = self.ask("GET", f"/v2/models/{self.model}")
        except OSError as error:
            return f"{self.url} does not answer: {error}"
        if status != 200:
            return f"{self.url} has no model {self.model!r} ({status}): name one with --model"
        inputs = [(x["datatype"], [*map(int, x["shape"])]) for x in found.get("inputs", ())]
        if inputs not in ([("FP32", [-1, 4])], [("FP32", [1, 4])]):
            return f"{self.model!r} takes {inputs}, not one FP32 input of shape [-1, 4] or [1, 4]"
        return ""

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
