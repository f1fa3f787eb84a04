"""A connection over HTTP that sends bytes as they are given, and reads one answer."""

from __future__ import annotations

import asyncio
import json
from typing import NamedTuple, Self

import numpy as np

from afterglow.types import Array
from benchmarks.serve_soak.models import DATATYPES, Question

LONGEST = 120.0
"""Seconds after which an answer counts as missing."""
_TYPES = {name: np.dtype(kind) for kind, name in DATATYPES.items()}


class HttpAnswer(NamedTuple):
    """A status, how much of the body is JSON, and the body."""

    status: int
    json_length: int
    body: bytes


class Connection:
    """A connection that is opened again where the server has closed it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def post(self, path: str, body: bytes, headers: str = "") -> HttpAnswer:
        """The answer to a request."""
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: {len(body)}"
        return await self.send(f"{head}\r\n\r\n".encode() + body)

    async def get(self, path: str) -> HttpAnswer:
        """The answer to a request without a body."""
        return await self.send(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())

    async def send(self, data: bytes) -> HttpAnswer:
        """The answer to bytes; one that comes too late is not taken for that of the next."""
        if self._writer is None or self._reader is None or self._reader.at_eof():
            self.close()
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._writer.write(data)
        try:
            return await asyncio.wait_for(self._answer(self._reader), LONGEST)
        except TimeoutError:
            self.close()
            raise

    async def _answer(self, reader: asyncio.StreamReader) -> HttpAnswer:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        lines = (line.partition(": ") for line in head.split("\r\n")[1:])
        headers = {name: value for name, _, value in lines}
        if headers.get("transfer-encoding") == "chunked":
            body = await reader.readuntil(b"0\r\n\r\n")
        else:
            body = await reader.readexactly(int(headers.get("content-length", 0)))
        if headers.get("connection") == "close":
            self.close()
        length = int(headers.get("inference-header-content-length", len(body)))
        return HttpAnswer(int(head.split()[1]), length, body)

    def close(self) -> None:
        """Close the connection."""
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


def infer_body(question: Question, *, binary: bool) -> tuple[bytes, str]:
    """The body of a request, and the header that it needs."""
    inputs, parts = [], []
    for name, array in question.inputs.items():
        datatype = DATATYPES[str(array.dtype)]
        tensor = {"name": name, "shape": list(array.shape), "datatype": datatype}
        if binary:
            parts.append(array.tobytes())
            inputs.append(tensor | {"parameters": {"binary_data_size": array.nbytes}})
        else:
            inputs.append(tensor | {"data": array.ravel().tolist()})
    content = {"inputs": inputs, "parameters": {"binary_data_output": binary}}
    head = json.dumps(content).encode()
    header = f"inference-header-content-length: {len(head)}\r\n" if binary else ""
    return b"".join([head, *parts]), header


def outputs_of(answer: HttpAnswer) -> dict[str, Array]:
    """The arrays that an answer has."""
    found, place = {}, answer.json_length
    for tensor in json.loads(answer.body[: answer.json_length])["outputs"]:
        dtype = _TYPES[tensor["datatype"]]
        size = tensor.get("parameters", {}).get("binary_data_size")
        if size is None:
            array = np.array(tensor["data"], dtype)
        else:
            array = np.frombuffer(answer.body[place : place + size], dtype)
            place += size
        found[tensor["name"]] = array.reshape(tensor["shape"])
    return found
