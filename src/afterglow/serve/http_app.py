"""The server's ASGI application: which function answers which path."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import lru_cache
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

from afterglow.serve.core import ServerCore
from afterglow.serve.errors import (
    ErrorKind,
    RequestError,
    invalid,
    not_found,
    request_error,
)
from afterglow.serve.http_call import (
    Answer,
    DisconnectError,
    HttpCall,
    Receive,
    Send,
    error_answer,
    json_answer,
    send_answer,
)
from afterglow.serve.http_tensors import (
    HEADER_LENGTH,
    parse_object,
    read_request,
    write_response,
)
from afterglow.serve.metrics import CONTENT_TYPE
from afterglow.serve.status_page import PAGE, status_data

Handler: TypeAlias = Callable[["HttpApp", HttpCall], Awaitable[Answer]]
WATCHED_AFTER = 0.005
"""Seconds after which it is watched whether a client is still there: shorter runs just end."""
_OPEN = {("v2", "health", "live"), ("v2", "health", "ready")}
"""What needs no token, because whoever starts servers asks it."""


class HttpApp:
    """Answers requests over HTTP."""

    def __init__(self, core: ServerCore) -> None:
        self.core = core

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Answer one request: this is the interface of ASGI."""
        if scope["type"] != "http":
            return
        began = perf_counter()
        call = HttpCall(scope, receive, self.core.config.max_body)
        try:
            answer = await self._watched(call)
        except DisconnectError:
            answer = error_answer(request_error(asyncio.CancelledError()))
        self.core.metrics.answers["http", str(answer.status)] += 1
        if self.core.config.access_log:
            self._log(call, answer, perf_counter() - began)
        try:
            await send_answer(send, call.compressed(answer))
        except Exception as error:  # a stream of events that failed: its client sees it end
            self.core.log.error("answer not sent", path=scope["path"], error=repr(error))
            raise

    def _log(self, call: HttpCall, answer: Answer, seconds: float) -> None:
        self.core.log.info(
            "request",
            method=call.scope["method"],
            path=call.scope["path"],
            status=answer.status,
            milliseconds=round(seconds * 1e3, 3),
            traceparent=call.headers.get("traceparent", ""),
        )

    async def _watched(self, call: HttpCall) -> Answer:
        """The answer to a request, which is cancelled if its client goes away."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        watchers: list[asyncio.Task[None]] = []

        async def watch() -> None:
            while (await call.receive())["type"] != "http.disconnect":
                pass
            if task is not None:
                task.cancel()

        def begin() -> None:
            """Watch the client, unless its body is still being read, which watches it, too."""
            if call.is_read:
                watchers.append(loop.create_task(watch()))

        timer = loop.call_later(WATCHED_AFTER, begin)
        try:
            return await self._answer(call)
        except asyncio.CancelledError:
            if not watchers or not watchers[0].done():
                raise  # the server ends it, not the client
            raise DisconnectError from None
        finally:
            timer.cancel()
            for watcher in watchers:
                watcher.cancel()

    async def _answer(self, call: HttpCall) -> Answer:
        """The answer to a request; errors become answers, too."""
        try:
            path = tuple(call.scope["path"].strip("/").split("/"))
            if path not in _OPEN:
                self.core.authorise(call.headers.get("authorization", ""))
            handler, call.names = find_route(call.scope["method"], path)
            await call.read()
            return await handler(self, call)
        except RequestError as error:
            return error_answer(error)
        except (asyncio.CancelledError, DisconnectError):
            raise
        except Exception as error:
            known = request_error(error)
            if known.kind is ErrorKind.INTERNAL:
                self.core.log.error("request failed", path=call.scope["path"], error=repr(error))
            return error_answer(known)


class Route(NamedTuple):
    """A path, with stars for names, and who answers it."""

    method: str
    path: tuple[str, ...]
    handler: Handler


@lru_cache(maxsize=1024)
def find_route(method: str, path: tuple[str, ...]) -> tuple[Handler, tuple[str, ...]]:
    """Who answers a path, and the names in it."""
    fitting = [
        route
        for route in ROUTES.get(len(path), ())
        if all(own in ("*", given) for own, given in zip(route.path, path, strict=True))
    ]
    for route in fitting:
        if route.method == method or (route.method == "GET" and method == "HEAD"):
            stars = zip(route.path, path, strict=True)
            return route.handler, tuple(given for own, given in stars if own == "*")
    if fitting:
        allowed = ", ".join(dict.fromkeys(route.method for route in fitting))
        raise RequestError(
            ErrorKind.WRONG_METHOD, f"{method[:20]} is not for this path", help=f"send {allowed}"
        )
    raise not_found("there is nothing at this path", help="docs/serve.md lists all paths")


async def live(app: HttpApp, call: HttpCall) -> Answer:
    """Whether the process answers."""
    return json_answer({"live": True})


async def ready(app: HttpApp, call: HttpCall) -> Answer:
    """Whether the server takes requests."""
    is_ready = app.core.is_ready
    return json_answer({"ready": is_ready}, 200 if is_ready else 503)


async def model_ready(app: HttpApp, call: HttpCall) -> Answer:
    """Whether a model takes requests."""
    name, version = _model(call)
    is_ready = app.core.is_model_ready(name, version)
    known = app.core.repository.has(name)
    return json_answer(
        {"name": name, "ready": is_ready}, 200 if is_ready else 503 if known else 404
    )


async def server_metadata(app: HttpApp, call: HttpCall) -> Answer:
    """What the server is."""
    return json_answer(app.core.server_metadata())


async def model_metadata(app: HttpApp, call: HttpCall) -> Answer:
    """Inputs and outputs of a model."""
    return json_answer(app.core.model_metadata(*_model(call)))


async def model_config(app: HttpApp, call: HttpCall) -> Answer:
    """How a model is served."""
    return json_answer(app.core.model_config(*_model(call)))


async def model_statistics(app: HttpApp, call: HttpCall) -> Answer:
    """Counts and times of a model."""
    return json_answer(app.core.statistics(*_model(call)))


async def all_statistics(app: HttpApp, call: HttpCall) -> Answer:
    """Counts and times of all models."""
    return json_answer(app.core.statistics("", ""))


async def infer(app: HttpApp, call: HttpCall) -> Answer:
    """Run a model."""
    core = app.core
    name, version = _model(call)
    core.repository.find(name, version)  # first, so that a wrong name is told before a wrong body
    header = call.headers.get(HEADER_LENGTH)
    request = read_request(name, version, call.body, header, core.shared_memory)
    request.traceparent = call.headers.get("traceparent", "")
    body, length = write_response(await core.infer(request), request)
    if length is None:
        return Answer(body)
    headers = ((HEADER_LENGTH.encode(), str(length).encode()),)
    return Answer(body, content_type=b"application/octet-stream", headers=headers)


async def index(app: HttpApp, call: HttpCall) -> Answer:
    """All models with their states."""
    return json_answer(app.core.index(parse_object(call.body)))


async def load(app: HttpApp, call: HttpCall) -> Answer:
    """Load a model."""
    await app.core.load(call.names[0], parse_object(call.body).get("parameters"))
    return json_answer({})


async def unload(app: HttpApp, call: HttpCall) -> Answer:
    """Unload a model."""
    app.core.unload(call.names[0])
    return json_answer({})


async def memory_status(app: HttpApp, call: HttpCall) -> Answer:
    """The registered regions of shared memory, or one of them."""
    return json_answer(app.core.shared_memory.status(call.names[0] if call.names else ""))


async def memory_register(app: HttpApp, call: HttpCall) -> Answer:
    """Register a region of shared memory."""
    given = parse_object(call.body)
    memory = app.core.shared_memory
    memory.register(call.names[0], given.get("key"), given.get("offset", 0), given.get("byte_size"))
    return json_answer({})


async def memory_unregister(app: HttpApp, call: HttpCall) -> Answer:
    """Forget a region of shared memory, or all."""
    app.core.shared_memory.unregister(call.names[0] if call.names else "")
    return json_answer({})


async def unsupported(app: HttpApp, call: HttpCall) -> Answer:
    """What other servers have and this one has not."""
    raise RequestError(ErrorKind.UNIMPLEMENTED, "this server does not support it")


async def metrics(app: HttpApp, call: HttpCall) -> Answer:
    """Metrics for Prometheus."""
    text = app.core.metrics.text(app.core.repository.all_served())
    return Answer(text.encode(), content_type=CONTENT_TYPE.encode())


async def page(app: HttpApp, call: HttpCall) -> Answer:
    """The status page."""
    policy = b"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    headers = ((b"content-security-policy", policy + b"connect-src 'self'"),)
    return Answer(PAGE.encode(), content_type=b"text/html; charset=utf-8", headers=headers)


async def status(app: HttpApp, call: HttpCall) -> Answer:
    """What the status page shows."""
    return json_answer(status_data(app.core))


def _model(call: HttpCall) -> tuple[str, str]:
    """The name and version that a path has; the version is empty if it has none."""
    name, *version = call.names
    if not name:
        raise invalid("the path names no model")
    return name, version[0] if version else ""


def _table() -> dict[int, list[Route]]:
    """All routes, by the number of parts of their paths; plain ones before those with names."""
    of_a_model: list[tuple[str, str, Handler]] = [
        ("GET", "", model_metadata),
        ("GET", "/ready", model_ready),
        ("GET", "/config", model_config),
        ("GET", "/stats", model_statistics),
        ("POST", "/infer", infer),
    ]
    listed: list[tuple[str, str, Handler]] = [
        ("GET", "", page),
        ("GET", "status", status),
        ("GET", "metrics", metrics),
        ("GET", "v2", server_metadata),
        ("GET", "v2/health/live", live),
        ("GET", "v2/health/ready", ready),
        ("GET", "v2/models/stats", all_statistics),
        *((m, f"v2/models/*{end}", h) for m, end, h in of_a_model),
        *((m, f"v2/models/*/versions/*{end}", h) for m, end, h in of_a_model),
        ("POST", "v2/repository/index", index),
        ("POST", "v2/repository/models/*/load", load),
        ("POST", "v2/repository/models/*/unload", unload),
        ("GET", "v2/systemsharedmemory/status", memory_status),
        ("GET", "v2/systemsharedmemory/region/*/status", memory_status),
        ("POST", "v2/systemsharedmemory/region/*/register", memory_register),
        ("POST", "v2/systemsharedmemory/region/*/unregister", memory_unregister),
        ("POST", "v2/systemsharedmemory/unregister", memory_unregister),
        *((m, p, unsupported) for m in ("GET", "POST") for p in _UNSUPPORTED),
    ]
    table: dict[int, list[Route]] = {}
    for method, path, handler in listed:
        parts = tuple(path.split("/"))
        table.setdefault(len(parts), []).append(Route(method, parts, handler))
    return table


_UNSUPPORTED = (
    "v2/trace/setting",
    "v2/models/*/trace/setting",
    "v2/logging",
    "v2/cudasharedmemory/status",
    "v2/cudasharedmemory/unregister",
    "v2/cudasharedmemory/region/*/status",
    "v2/cudasharedmemory/region/*/register",
    "v2/cudasharedmemory/region/*/unregister",
)
ROUTES = _table()
"""All routes, by the number of parts of their paths."""
