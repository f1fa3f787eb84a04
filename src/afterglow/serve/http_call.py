"""One request over HTTP: its headers, its body within limits, and the answer to it."""

from __future__ import annotations

import json
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import field
from functools import cached_property
from typing import Any, TypeAlias

from afterglow.serve.errors import ErrorKind, RequestError
from afterglow.support.lazy_dataclass import dataclass

Receive: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]
Send: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[None]]
JSON = b"application/json"
_WINDOWS = {"gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
"""How zlib reads and writes each encoding of a body."""
SMALL = 1024
"""Bytes of an answer that is not worth being compressed."""


class DisconnectError(Exception):
    """The client is gone: nobody waits for an answer."""


@dataclass(frozen=True)
class Answer:
    """The answer to a request; with `events`, the body is sent piece by piece."""

    body: bytes = b""
    status: int = 200
    content_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()
    events: AsyncIterator[bytes] | None = None


@dataclass
class HttpCall:
    """A request: what it is for, its headers, and where its body comes from."""

    scope: Mapping[str, Any]
    receive: Receive
    max_body: int
    names: tuple[str, ...] = ()
    """The parts of the path that are names."""
    body: bytes = b""
    is_read: bool = field(default=False)

    @cached_property
    def headers(self) -> dict[str, str]:
        """The headers, by their names in lower case."""
        return {key.decode("latin-1"): value.decode("latin-1") for key, value in self._pairs}

    @property
    def _pairs(self) -> list[tuple[bytes, bytes]]:
        pairs: list[tuple[bytes, bytes]] = self.scope["headers"]
        return pairs

    async def read(self) -> None:
        """Read the body, and decompress it; what is too large is not read to its end."""
        length = self.headers.get("content-length", "0")
        if length.isdigit() and int(length[:18]) > self.max_body:
            raise self._too_large()
        parts, size = [], 0
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise DisconnectError
            part = message.get("body", b"")
            size += len(part)
            if size > self.max_body:
                raise self._too_large()
            parts.append(part)
            if not message.get("more_body", False):
                break
        self.is_read = True
        self.body = self._decoded(parts[0] if len(parts) == 1 else b"".join(parts))

    def _decoded(self, body: bytes) -> bytes:
        encoding = self.headers.get("content-encoding", "identity").strip().lower()
        if encoding in ("identity", ""):
            return body
        if encoding not in _WINDOWS:
            raise RequestError(
                ErrorKind.ENCODING,
                f"bodies in the encoding {encoding[:40]!r} are not supported",
                help=f"send {', '.join(_WINDOWS)} or none",
            )
        reader = zlib.decompressobj(_WINDOWS[encoding])
        try:
            plain = reader.decompress(body, self.max_body + 1)
        except zlib.error:
            raise RequestError(ErrorKind.INVALID, f"the body is not {encoding}") from None
        if len(plain) > self.max_body:
            raise self._too_large()
        if not reader.eof:
            raise RequestError(ErrorKind.INVALID, f"the body ends before its {encoding} does")
        return plain

    def _too_large(self) -> RequestError:
        return RequestError(ErrorKind.TOO_LARGE, f"the body is larger than {self.max_body:,} bytes")

    def compressed(self, answer: Answer) -> Answer:
        """The answer in the encoding that the client asks for, if it asks for exactly one."""
        encoding = self.headers.get("accept-encoding", "")
        if encoding not in _WINDOWS or len(answer.body) < SMALL or answer.events is not None:
            return answer
        writer = zlib.compressobj(1, wbits=_WINDOWS[encoding])
        body = writer.compress(answer.body) + writer.flush()
        headers = (*answer.headers, (b"content-encoding", encoding.encode()))
        return Answer(body, answer.status, answer.content_type, headers)


def json_answer(data: Any, status: int = 200) -> Answer:
    """An answer in JSON."""
    return Answer(json.dumps(data, separators=(",", ":")).encode(), status)


def error_answer(error: RequestError) -> Answer:
    """The answer for an error."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    if error.kind in (ErrorKind.BUSY, ErrorKind.UNAVAILABLE):
        headers = ((b"retry-after", b"1"),)
    if error.kind is ErrorKind.UNAUTHENTICATED:
        headers = ((b"www-authenticate", b"Bearer"),)
    body = json.dumps({"error": error.message}).encode()
    return Answer(body, error.kind.status, headers=headers)


async def send_answer(send: Send, answer: Answer) -> None:
    """Send an answer."""
    headers = [(b"content-type", answer.content_type), *answer.headers]
    if answer.events is None:
        headers.append((b"content-length", str(len(answer.body)).encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    if answer.events is None:
        await send({"type": "http.response.body", "body": answer.body})
        return
    async for part in answer.events:
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
