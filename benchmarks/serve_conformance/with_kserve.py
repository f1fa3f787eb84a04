"""The checks through KServe's clients, if they are installed: `pip install kserve`.

They are asked in a process of their own: KServe's and Triton's packages both register the messages
of the protocol with protobuf, and the second one to be imported in a process fails.
"""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from benchmarks.serve_conformance.subject import VALUE, Check, Subject

Question = Callable[[], Awaitable[tuple[bool, str]]]
LONGEST = 120.0
"""Seconds that all checks may take, the import of the clients included."""


def has_kserve() -> bool:
    """Whether the clients are installed."""
    return find_spec("kserve") is not None


def with_kserve(subject: Subject) -> None:
    """Health, inference and errors over both protocols; nothing without the clients."""
    if not has_kserve():
        return
    command = [sys.executable, "-m", __name__, subject.url, subject.model, subject.grpc or ""]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST)
    if done.returncode:
        subject.checks.append(Check("kserve: the clients run", False, done.stderr[-200:]))
        return
    subject.checks += [Check(**each) for each in json.loads(done.stdout.splitlines()[-1])]


async def _ask(kserve: Any, subject: Subject) -> None:
    config = kserve.RESTConfig(protocol="v2", timeout=10)
    async with kserve.InferenceRESTClient(config) as client:
        await _over_http(kserve, client, subject)
    if subject.grpc is not None:
        async with kserve.InferenceGRPCClient(subject.grpc, timeout=10, retries=2) as client:
            await _over_grpc(kserve, client, subject)


async def _over_http(kserve: Any, client: Any, subject: Subject) -> None:
    """What `InferenceRESTClient` can ask, with tensors as bytes and as JSON."""
    url, model = subject.url, subject.model

    async def infer(binary: bool) -> tuple[bool, str]:
        parameters = {"binary_data_output": binary}
        given = _request(kserve, model, binary=binary, parameters=parameters)
        return _doubles(await client.infer(url, given, model_name=model), model)

    async def unknown() -> tuple[bool, str]:
        name = "there-is-none"
        try:
            await client.infer(url, _request(kserve, name, binary=True), model_name=name)
        except Exception as error:  # of whatever library the client is built on
            response = getattr(error, "response", None)
            return getattr(response, "status_code", 0) == 404, str(error)[:60]
        return False, "it was answered"

    ready = client.is_model_ready
    await _check_flag(subject, "kserve http: live", client.is_server_live(url))
    await _check_flag(subject, "kserve http: ready", client.is_server_ready(url))
    await _check_flag(subject, "kserve http: model ready", ready(url, model))
    await _check_flag(
        subject, "kserve http: unknown model is not ready", ready(url, "there-is-none"), False
    )
    await _check(subject, "kserve http: infer, bytes", lambda: infer(True))
    await _check(subject, "kserve http: infer, JSON", lambda: infer(False))
    await _check(subject, "kserve http: unknown model", unknown)


async def _over_grpc(kserve: Any, client: Any, subject: Subject) -> None:
    """What `InferenceGRPCClient` can ask, with raw and with typed contents."""
    model = subject.model

    async def infer(binary: bool) -> tuple[bool, str]:
        found = await client.infer(_request(kserve, model, binary=binary))
        return _doubles(found, model)

    async def unknown() -> tuple[bool, str]:
        try:
            await client.infer(_request(kserve, "there-is-none", binary=True))
        except Exception as error:  # a subclass of what grpcio raises
            code = getattr(error, "code", lambda: None)()
            return getattr(code, "name", "") == "NOT_FOUND", str(code)
        return False, "it was answered"

    await _check_flag(subject, "kserve grpc: live", client.is_server_live())
    await _check_flag(subject, "kserve grpc: ready", client.is_server_ready())
    await _check_flag(subject, "kserve grpc: model ready", client.is_model_ready(model))
    await _check(subject, "kserve grpc: infer, raw contents", lambda: infer(True))
    await _check(subject, "kserve grpc: infer, typed contents", lambda: infer(False))
    await _check(subject, "kserve grpc: unknown model", unknown)


def _request(kserve: Any, model: str, *, binary: bool, **more: Any) -> Any:
    given = kserve.InferInput("x", list(VALUE.shape), "FP32")
    given.set_data_from_numpy(VALUE, binary_data=binary)
    return kserve.InferRequest(model, [given], request_id="seven", **more)


def _doubles(found: Any, model: str) -> tuple[bool, str]:
    """Whether an answer has twice the input, and the id and the model of the request."""
    array = found.outputs[0].as_numpy()
    is_named = (found.id, found.model_name) == ("seven", model)
    return is_named and bool((array == 2 * VALUE).all()), str(array.tolist())


async def _check(subject: Subject, name: str, question: Question) -> None:
    """Ask, and note the answer; what the client raises is one that is not right."""
    try:
        found = await question()
    except Exception as error:
        found = False, f"{type(error).__name__}: {error}"
    subject.check(name, lambda: found)


async def _check_flag(
    subject: Subject, name: str, answer: Awaitable[bool], expected: bool = True
) -> None:
    async def question() -> tuple[bool, str]:
        found = await answer
        return found is expected, str(found)

    await _check(subject, name, question)


def main() -> None:
    """Ask the server that arguments name; the last line is the checks, as JSON."""
    url, model, grpc = sys.argv[1:]
    subject = Subject(url, model, grpc or None)
    kserve = import_module("kserve")
    logging.disable(logging.CRITICAL)  # it logs what checks provoke
    asyncio.run(_ask(kserve, subject))
    print(json.dumps([asdict(check) for check in subject.checks]))


if __name__ == "__main__":
    main()
