"""Completions of language models, as clients of OpenAI's interface ask for them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from itertools import count
from threading import Event
from typing import Any

from afterglow.serve.errors import ErrorKind, RequestError, invalid
from afterglow.support.errors import AfterglowError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.text import Generator, Piece

MOST_AT_ONCE = 64
"""Texts that are generated or wait at a time; one more is refused."""
DEFAULT_TOKENS = 256
_OPTIONS = {"temperature": float, "top_p": float, "top_k": int, "seed": int}
"""What a request says of how tokens are chosen, by the names of `Generator.generate`."""


@dataclass(frozen=True)
class TextRequest:
    """What is asked of a language model."""

    prompt: Any
    max_tokens: int
    options: Mapping[str, Any]
    is_stream: bool
    is_chat: bool

    @staticmethod
    def of(content: Mapping[str, Any], generator: Generator, *, is_chat: bool) -> TextRequest:
        """The request that a body has, checked."""
        for name in ("n", "best_of"):
            if content.get(name) not in (None, 1):
                raise invalid(f"{name} must be 1")
        most = content.get("max_completion_tokens", content.get("max_tokens"))
        most = DEFAULT_TOKENS if most is None else most
        if type(most) is not int or most < 1:
            raise invalid(f"max_tokens must be a whole number, got {str(most)[:40]!r}")
        options: dict[str, Any] = {}
        for name, kind in _OPTIONS.items():
            value = content.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, kind)):
                raise invalid(f"{name} must be a number, got {str(value)[:40]!r}")
            options[name] = kind(value)
        options.setdefault("temperature", 1.0)
        if content.get("stop"):
            options["stop"] = content["stop"]
        prompt = _chat(content, generator) if is_chat else content.get("prompt")
        if not is_chat and not isinstance(prompt, str):
            raise invalid("the prompt must be a text")
        return TextRequest(prompt, most, options, content.get("stream") is True, is_chat)


def _chat(content: Mapping[str, Any], generator: Generator) -> list[int]:
    messages = content.get("messages")
    if not isinstance(messages, list) or not messages:
        raise invalid("messages must be a list")
    for message in messages:
        is_message = isinstance(message, dict) and isinstance(message.get("role"), str)
        if not is_message or not isinstance(message.get("content"), str):
            raise invalid("each message needs a role and a content, which are texts")
    return generator.chat_tokens(messages)


@dataclass
class Completions:
    """Generates texts on threads of its own, whose pieces come to the event loop."""

    active: int = 0
    """Texts that are being generated, or wait."""
    _threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(MOST_AT_ONCE, "afterglow text")
    )
    _numbers: Any = field(default_factory=lambda: count(1))

    async def pieces(
        self, generator: Generator, request: TextRequest, stopped: Event
    ) -> AsyncIterator[Piece]:
        """The pieces of a text as they come; `stopped` ends it early."""
        if self.active >= MOST_AT_ONCE:
            raise RequestError(ErrorKind.BUSY, "too many texts are being generated")
        loop = asyncio.get_running_loop()
        arrived: asyncio.Queue[Piece | BaseException | None] = asyncio.Queue()

        def generate() -> None:
            """Generate on a thread, and give pieces to the event loop."""
            ended: BaseException | None = None
            try:
                for piece in generator.stream(
                    request.prompt,
                    request.max_tokens,
                    **request.options,
                ):
                    loop.call_soon_threadsafe(arrived.put_nowait, piece)
                    if stopped.is_set():
                        break
            except BaseException as error:  # whatever it is, it belongs to who asked
                ended = error
            loop.call_soon_threadsafe(arrived.put_nowait, ended)

        self.active += 1
        try:
            self._threads.submit(generate)
            while (found := await arrived.get()) is not None:
                if isinstance(found, BaseException):
                    raise found
                yield found
        finally:
            stopped.set()
            self.active -= 1

    async def whole(self, name: str, generator: Generator, request: TextRequest) -> dict[str, Any]:
        """A text, once all of it is there."""
        text, tokens, reason = "", 0, None
        async for piece in self.pieces(generator, request, Event()):
            text, tokens = text + piece, tokens + len(piece.tokens)
            reason = piece.finish_reason or reason
        given = len(request.prompt) if request.is_chat else len(_tokens(generator, request.prompt))
        usage = {"prompt_tokens": given, "completion_tokens": tokens}
        body = self._head(name, request, is_part=False)
        body["choices"] = [_choice(request, text, reason, is_part=False)]
        return {**body, "usage": usage | {"total_tokens": given + tokens}}

    async def events(
        self, name: str, generator: Generator, request: TextRequest, stopped: Event
    ) -> AsyncIterator[bytes]:
        """A text as server-sent events, piece by piece."""
        head = self._head(name, request, is_part=True)
        try:
            async for piece in self.pieces(generator, request, stopped):
                choice = _choice(request, str(piece), piece.finish_reason, is_part=True)
                yield _event({**head, "choices": [choice]})
        except AfterglowError as error:
            yield _event({"error": {"message": error.what, "type": "server_error"}})
        yield b"data: [DONE]\n\n"

    def _head(self, name: str, request: TextRequest, *, is_part: bool) -> dict[str, Any]:
        kind = "chat.completion" if request.is_chat else "text_completion"
        return {
            "id": f"{'chatcmpl' if request.is_chat else 'cmpl'}-{next(self._numbers)}",
            "object": f"{kind}.chunk" if is_part and request.is_chat else kind,
            "created": int(time.time()),
            "model": name,
        }


def _choice(
    request: TextRequest, text: str, reason: str | None, *, is_part: bool
) -> dict[str, Any]:
    told = "length" if reason == "context" else reason
    choice: dict[str, Any] = {"index": 0, "finish_reason": told, "logprobs": None}
    if not request.is_chat:
        return {**choice, "text": text}
    key = "delta" if is_part else "message"
    return {**choice, key: {"role": "assistant", "content": text}}


def _event(data: Any) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()


def _tokens(generator: Generator, prompt: str) -> list[int]:
    return [] if generator.tokenizer is None else generator.tokenizer.encode(prompt)
