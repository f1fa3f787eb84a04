"""Malformed requests, and an application that answers them without a socket."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter

GOOD = {
    "inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1.0, 2.0, 3.0, 4.0]}],
    "outputs": [{"name": "y", "parameters": {"binary_data": False}}],
    "parameters": {"priority": 1, "timeout": 1000000},
    "id": "a",
}
ODD = [
    *(None, True, -1, 0, 1.5, 1e400, 1 << 70, "", "x", "\ud800", "FP32", "BYTES", "BOOL", [], {}),
    *([[]], [[1], [1, 2]], {"a": {}}, [None], [1 << 31], [-1, 4], [1 << 62, 1 << 62], "é" * 300),
]
PATHS = ["/v2/models/double/infer", "/v2/repository/index", "/v2/repository/models/double/load"]
HEADERS = [
    (b"content-encoding", b"gzip"),
    (b"content-encoding", b"br"),
    (b"inference-header-content-length", b"5"),
    (b"inference-header-content-length", b"99999999999999999999"),
    (b"inference-header-content-length", b"\xb2"),
    (b"content-length", b"-7"),
]


def mutated(value, chance: random.Random):
    """A value with some parts replaced, dropped or doubled."""
    if chance.random() < 0.12:
        return chance.choice(ODD)
    if isinstance(value, dict):
        items = [(key, mutated(each, chance)) for key, each in value.items()]
        return dict(each for each in items if chance.random() > 0.05)
    if isinstance(value, list):
        found = [mutated(each, chance) for each in value]
        return found * 2 if chance.random() < 0.05 else found
    return value


def body(chance: random.Random) -> bytes:
    """A body: JSON that is a little wrong, cut off, with bytes changed, or noise."""
    made = bytearray(json.dumps(mutated(GOOD, chance)).encode())
    kind = chance.random()
    if kind < 0.2:
        del made[chance.randrange(len(made) + 1) :]
    elif kind < 0.4:
        for _ in range(chance.randrange(1, 4)):
            made[chance.randrange(len(made))] = chance.randrange(256)
    elif kind < 0.5:
        made += chance.randbytes(chance.randrange(40))
    elif kind < 0.55:
        made = bytearray(chance.randbytes(chance.randrange(200)))
    return bytes(made)


async def answered(app, path, content, headers):
    """The status and the body that an application answers with."""
    sent: list = []
    given = iter([{"type": "http.request", "body": content, "more_body": False}])

    async def receive():
        found = next(given, None)
        if found is None:
            await asyncio.Event().wait()
        return found

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
    await app(scope, receive, send)
    return sent[0]["status"], sent[1]["body"]


async def fuzz(app, count: int, seed: int) -> Counter:
    """Send malformed requests, and count the statuses of the answers."""
    chance, statuses = random.Random(seed), Counter()
    for _ in range(count):
        path = PATHS[0] if chance.random() < 0.97 else chance.choice(PATHS)
        headers = [chance.choice(HEADERS)] if chance.random() < 0.15 else []
        status, text = await answered(app, path, body(chance), headers)
        statuses[status] += 1
        assert b"Traceback" not in text
        if status != 200:
            assert isinstance(json.loads(text)["error"], str)
    return statuses
