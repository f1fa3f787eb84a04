"""Malformed requests: bodies that are a little wrong, cut off or noise, and heads that lie."""

from __future__ import annotations

import json
import random
from typing import Any, NamedTuple

GOOD = {
    "inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1.0, 2.0, 3.0, 4.0]}],
    "outputs": [{"name": "y", "parameters": {"binary_data": False}}],
    "parameters": {"priority": 1, "timeout": 1000000, "trace_kernels": False},
    "id": "a",
}
COMPLETION = {
    "model": "tiny",
    "prompt": "once",
    "messages": [{"role": "user", "content": "once"}],
    "max_tokens": 2,
    "temperature": 0,
    "top_p": 0.9,
    "top_k": 5,
    "seed": 1,
    "stop": ["zz"],
    "stream": False,
}
ODD = [
    *(None, True, -1, 0, 1.5, 1e400, 1 << 70, "", "x", "\ud800", "FP32", "BYTES", "BOOL", [], {}),
    *([[]], [[1], [1, 2]], {"a": {}}, [None], [1 << 31], [-1, 4], [1 << 62, 1 << 62], "é" * 300),
]
INFER = "/v2/models/double/infer"
PATHS = [INFER, "/v2/repository/index", "/v2/repository/models/double/load"]
TEXT_PATHS = ["/v1/completions", "/v1/chat/completions"]
HEADERS = [
    (b"content-encoding", b"gzip"),
    (b"content-encoding", b"br"),
    (b"inference-header-content-length", b"5"),
    (b"inference-header-content-length", b"99999999999999999999"),
    (b"inference-header-content-length", b"\xb2"),
]
LENGTH = (b"content-length", b"-7")
"""A header that makes a request end where nobody knows."""


class Malformed(NamedTuple):
    """A request that is wrong somewhere, or right by chance."""

    path: str
    body: bytes
    headers: list[tuple[bytes, bytes]]


def mutated(value: Any, chance: random.Random) -> Any:
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


def body(chance: random.Random, good: Any = GOOD) -> bytes:
    """A body: JSON that is a little wrong, cut off, with bytes changed, or noise."""
    return damaged(json.dumps(mutated(good, chance)).encode(), chance)


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Data, about half of the time cut off, with bytes changed, with more bytes, or noise."""
    made = bytearray(data)
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


def malformed(chance: random.Random, text_share: float = 0.0) -> Malformed:
    """A malformed request; some are for a language model."""
    headers = [chance.choice(HEADERS)] if chance.random() < 0.15 else []
    if chance.random() < text_share:
        return Malformed(chance.choice(TEXT_PATHS), body(chance, COMPLETION), headers)
    path = INFER if chance.random() < 0.97 else chance.choice(PATHS)
    return Malformed(path, body(chance), headers)


def head_of(request: Malformed, chance: random.Random) -> tuple[bytes, bool]:
    """The head of a request, and whether it is sound: some lie about lengths, some are noise."""
    lines = [f"POST {request.path} HTTP/1.1".encode(), b"host: localhost"]
    lines += [b": ".join(pair) for pair in request.headers]
    kind = chance.random()
    length = LENGTH[1] if kind < 0.01 else str(len(request.body)).encode()
    head = b"\r\n".join([*lines, b"content-length: " + length, b"", b""])
    return (damaged(head, chance), False) if kind > 0.99 else (head, kind >= 0.01)
