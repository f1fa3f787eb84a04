"""A replica of Ray Serve: the core of the inference server around one model."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Any

from starlette.responses import Response

from afterglow.ray.node_files import StoredModel
from afterglow.serve.config import read_config
from afterglow.serve.core import ServerCore
from afterglow.serve.folder import FoundModel, ModelKind
from afterglow.serve.http_app import HttpApp
from afterglow.serve.logs import Log
from afterglow.serve.repository import ModelState
from afterglow.serve.tensors import InferRequest

_VERSION = "1"


class ModelReplica:
    """A model in a replica, called through a handle or over HTTP.

    A handle gives arrays by position or by name, and gets the list of outputs. Over HTTP it answers
    as the inference server does, below the route of the application. Of requests that wait, those
    that can be joined run together. `settings` are those of the inference server.
    """

    def __init__(self, model: StoredModel, name: str, settings: Mapping[str, Any]) -> None:
        path = model.path()
        # one model, which clients cannot replace: the folder itself is never looked at
        fixed = {"models": path.parent, "control": False, "instances": 1}
        self._core = ServerCore(
            read_config(None, {**settings, **fixed}), version("afterglow"), Log()
        )
        self._app = HttpApp(self._core)
        self._name = name
        repository = self._core.repository
        found = FoundModel(name, _VERSION, path, ModelKind.TENSORS, (0, model.size, 0))
        repository.models[name] = ModelState({_VERSION: found})
        with ThreadPoolExecutor(1) as thread:  # this one has an event loop, which runs already
            thread.submit(asyncio.run, repository.load(name, rescan=False)).result()
        repository.is_loaded = True

    async def __call__(self, *arrays: Any, **named: Any) -> Any:
        """The outputs, in order; of an HTTP request, the answer."""
        if len(arrays) == 1 and hasattr(arrays[0], "scope"):
            return await self._answer(arrays[0])
        feed = self._core.repository.find(self._name).feed(arrays, named)
        response = await self._core.infer(InferRequest(self._name, inputs=feed))
        return [output.array for output in response.outputs]

    async def _answer(self, request: Any) -> Response:
        """What the HTTP application answers to the path below the route of the application."""
        scope = dict(request.scope)
        scope["path"] = scope["path"].removeprefix(scope.get("root_path", ""))
        head: dict[str, Any] = {}
        body = bytearray()

        async def send(message: Mapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                head.update(message)
            else:
                body.extend(message.get("body", b""))

        await self._app(scope, request.receive, send)
        response = Response(bytes(body), head["status"])
        response.raw_headers = [*head["headers"]]
        return response
