"""The paths of OpenAI's interface, for the language models of the folder."""

from __future__ import annotations

import asyncio
import json
from threading import Event
from typing import Any

from afterglow.serve.completions import TextRequest
from afterglow.serve.core import ServerCore
from afterglow.serve.errors import RequestError, invalid, request_error
from afterglow.serve.http_call import Answer, HttpCall, json_answer
from afterglow.serve.http_tensors import parse_object


def list_models(core: ServerCore) -> Answer:
    """The language models that are loaded."""
    names = [name for name, state in core.repository.models.items() if state.text is not None]
    rows = [{"id": name, "object": "model", "owned_by": "afterglow"} for name in names]
    return json_answer({"object": "list", "data": rows})


async def complete(core: ServerCore, call: HttpCall, *, is_chat: bool) -> Answer:
    """Generate a text, whole or as a stream of events; errors have the form of OpenAI's."""
    try:
        return await _complete(core, call, is_chat=is_chat)
    except asyncio.CancelledError:
        raise
    except Exception as error:
        return _error(request_error(error))


async def _complete(core: ServerCore, call: HttpCall, *, is_chat: bool) -> Answer:
    core.refuse_if_draining()
    content = parse_object(call.body)
    name = content.get("model")
    if not isinstance(name, str):
        raise invalid("the model must be named")
    generator = core.repository.find_text(name)
    request = TextRequest.of(content, generator, is_chat=is_chat)
    if not request.is_stream:
        return json_answer(await core.completions.whole(name, generator, request))
    stopped = Event()
    watching = asyncio.get_running_loop().create_task(_watch(call, stopped))
    events = core.completions.events(name, generator, request, stopped)

    async def watched() -> Any:
        try:
            async for event in events:
                yield event
        finally:
            watching.cancel()

    headers = ((b"cache-control", b"no-cache"),)
    return Answer(content_type=b"text/event-stream", headers=headers, events=watched())


async def _watch(call: HttpCall, stopped: Event) -> None:
    """Stop a text whose client goes away."""
    while (await call.receive())["type"] != "http.disconnect":
        pass
    stopped.set()


def _error(error: RequestError) -> Answer:
    kind = "invalid_request_error" if error.kind.status < 500 else "server_error"
    body = {"error": {"message": error.message, "type": kind, "code": error.kind.name.lower()}}
    return Answer(json.dumps(body).encode(), error.kind.status)
