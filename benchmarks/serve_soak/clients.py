"""Clients of the load: those that ask and check, and one that loads and unloads models."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any

import numpy as np
import tritonclient.grpc.aio as triton

from benchmarks.serve_soak.connection import Connection, infer_body, outputs_of
from benchmarks.serve_soak.models import (
    DATATYPES,
    SWAPPED,
    TEXT,
    TOKENS,
    TURNING,
    Question,
    SoakModel,
    replace_swapped,
)
from benchmarks.serve_soak.tally import Tally

ROW = np.array([[1.0, -2.0, 0.5, 3.0]], np.float32)
TURN = 0.5
"""Seconds between two changes of the models."""


@dataclass(frozen=True)
class Load:
    """Where the server is, until when it is asked, and what has been found."""

    http: int
    grpc: int
    folder: Path
    until: float
    pause: float
    tally: Tally

    async def repeat(self, step: Callable[[], Awaitable[None]], pause: float | None = None) -> None:
        """Do something until the load ends; what it raises is a failure."""
        while monotonic() < self.until:
            try:
                await step()
            except Exception as error:  # a failure of whatever kind ends no client
                self.tally.fail(f"{step.__qualname__}: {type(error).__name__}: {error}")
            await asyncio.sleep(self.pause if pause is None else pause)


async def ask_http(load: Load, models: Sequence[SoakModel], seed: int) -> None:
    """Ask models over HTTP, with tensors as bytes and as JSON."""
    chance = random.Random(seed)
    async with Connection(load.http) as connection:

        async def ask() -> None:
            question = chance.choice(models).question(chance)
            small = sum(array.size for array in question.inputs.values()) < 1000
            binary = not small or chance.random() < 0.5
            body, header = infer_body(question, binary=binary)
            began = perf_counter()
            answer = await connection.post(f"/v2/models/{question.model}/infer", body, header)
            seconds = perf_counter() - began
            if answer.status != 200:
                load.tally.fail(f"{question.model}: {answer.status} {answer.body[:200]!r}")
            elif problem := question.problem(outputs_of(answer)):
                load.tally.fail(f"wrong answer over HTTP: {problem}")
            else:
                load.tally.right("http, bytes" if binary else "http, JSON", seconds)

        await load.repeat(ask)


async def ask_grpc(load: Load, models: Sequence[SoakModel], seed: int) -> None:
    """Ask models over gRPC."""
    chance = random.Random(seed)
    async with triton.InferenceServerClient(f"127.0.0.1:{load.grpc}") as client:

        async def ask() -> None:
            question = chance.choice(models).question(chance)
            inputs = triton_inputs(question)
            began = perf_counter()
            answer = await client.infer(question.model, inputs)
            seconds = perf_counter() - began
            found = {name: answer.as_numpy(name) for name in question.outputs}
            if problem := question.problem(found):
                load.tally.fail(f"wrong answer over gRPC: {problem}")
            else:
                load.tally.right("grpc", seconds)

        await load.repeat(ask)


def triton_inputs(question: Question) -> list[Any]:
    """Inputs as Triton's client sends them."""
    inputs = []
    for name, array in question.inputs.items():
        inputs.append(triton.InferInput(name, array.shape, DATATYPES[str(array.dtype)]))
        inputs[-1].set_data_from_numpy(array)
    return inputs


async def ask_text(load: Load, texts: dict[str, str], seed: int) -> None:
    """Ask the language model, whole texts and streams."""
    chance = random.Random(seed)
    async with Connection(load.http) as connection:

        async def ask() -> None:
            prompt, is_stream = chance.choice([*texts]), chance.random() < 0.5
            content = {"model": TEXT, "prompt": prompt, "max_tokens": TOKENS, "temperature": 0}
            body = json.dumps(content | {"stream": is_stream}).encode()
            began = perf_counter()
            answer = await connection.post("/v1/completions", body)
            seconds = perf_counter() - began
            events = _events(answer.body) if is_stream else [json.loads(answer.body)]
            found = "".join(event["choices"][0]["text"] for event in events)
            if found != texts[prompt]:
                load.tally.fail(f"wrong text after {prompt!r}: {found!r}")
            else:
                load.tally.right("text, stream" if is_stream else "text", seconds)

        await load.repeat(ask, 10 * load.pause)


def _events(body: bytes) -> list[Any]:
    lines = [line for line in body.split(b"\r\n") if line.startswith(b"data: {")]
    return [json.loads(line[6:]) for line in lines]


async def ask_swapped(load: Load) -> None:
    """Ask the model whose file is replaced: it answers always, as one file or the other says."""
    question = Question(SWAPPED, {"x": ROW}, {})
    body, header = infer_body(question, binary=True)
    async with Connection(load.http) as connection:

        async def ask() -> None:
            began = perf_counter()
            answer = await connection.post(f"/v2/models/{SWAPPED}/infer", body, header)
            seconds = perf_counter() - began
            found = outputs_of(answer)["y"] if answer.status == 200 else answer.body
            if not any(np.array_equal(found, times * ROW) for times in (2, 3)):
                load.tally.fail(f"{SWAPPED}: {answer.status} {found!r}")
            else:
                load.tally.right("http, while its file is replaced", seconds)

        await load.repeat(ask)


async def turn_models(load: Load) -> None:
    """Unload and load a model, replace the file of another, and look at the server's pages."""
    number = 0
    body, header = infer_body(Question(TURNING, {"x": ROW}, {}), binary=True)
    async with Connection(load.http) as connection:

        async def expect(path: str, *statuses: int, content: bytes = b"", head: str = "") -> bytes:
            answer = await connection.post(path, content, head)
            if answer.status not in statuses:
                raise RuntimeError(f"{path}: {answer.status} {answer.body[:200]!r}")
            return answer.body

        async def turn() -> None:
            nonlocal number
            number += 1
            infer, control = f"/v2/models/{TURNING}/infer", f"/v2/repository/models/{TURNING}"
            await expect(f"{control}/unload", 200)
            await expect(infer, 400, 404, 503, content=body, head=header)
            await expect(f"{control}/load", 200)
            await expect(infer, 200, content=body, head=header)
            load.tally.counts["unloaded and loaded"] += 1
            replace_swapped(load.folder, number)
            await expect(f"/v2/repository/models/{SWAPPED}/load", 200)
            load.tally.counts["file replaced and loaded"] += 1
            await expect("/v2/repository/index", 200)
            for path in ("/metrics", "/status", "/v2/models/stats", "/"):
                if (await connection.get(path)).status != 200:
                    raise RuntimeError(f"{path} is not answered")

        await load.repeat(turn, TURN)
