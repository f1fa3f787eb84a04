"""The checks that need no client: plain JSON over HTTP."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.serve_conformance.subject import Subject, request


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
