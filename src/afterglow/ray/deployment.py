"""A model as a deployment of Ray Serve."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ray import serve
from starlette.responses import JSONResponse

from afterglow.ray.node_files import StoredModel, store
from afterglow.runtime import CompiledModel
from afterglow.runtime.streams import checked_count
from afterglow.support.errors import UsageError


class ModelReplica:
    """A model in a replica of Ray Serve, called through a handle or over HTTP.

    A handle gives arrays by position or by name, and gets the list of outputs. The body of an HTTP
    request is JSON: `{"inputs": {name: nested lists}}`, and so is the answer, with `outputs`.
    """

    def __init__(self, model: StoredModel, threads: int) -> None:
        self.model = model.load(threads)

    async def __call__(self, *arrays: Any, **named: Any) -> Any:
        """The outputs, in order; of an HTTP request, the answer."""
        if len(arrays) == 1 and hasattr(arrays[0], "scope"):
            return await self._answer(arrays[0])
        return await self._run(self.model.feed(arrays, named))

    async def _answer(self, request: Any) -> Any:
        try:
            outputs = await self._run(self.model.feed((_inputs(await request.body()),), {}))
        except UsageError as error:
            return JSONResponse({"error": str(error)}, 400)
        names = [info.name for info in self.model.outputs]
        listed = {name: array.tolist() for name, array in zip(names, outputs, strict=True)}
        return JSONResponse({"outputs": listed})

    async def _run(self, feed: Mapping[str, Any]) -> list[Any]:
        """Run on another thread: the replica takes further requests meanwhile."""
        return await asyncio.to_thread(self.model.run, None, dict(feed))


def deployment(
    model: str | Path | bytes | CompiledModel | StoredModel,
    *,
    name: str = "afterglow",
    replicas: int | tuple[int, int] = 1,
    threads: int = 1,
    max_ongoing: int = 8,
    max_queued: int = 100,
) -> serve.Application:
    """An application for `ray.serve.run`: replicas of a model over the nodes of a cluster.

    `replicas` is their number, or the least and the most of them, between which Ray chooses by
    load. Each has `threads` cores, and works on at most `max_ongoing` requests; `max_queued`
    further ones wait for each caller, one more is refused. A replica that dies is replaced.
    """
    checked_count("threads", threads)
    scaling: dict[str, Any] = {}
    if isinstance(replicas, tuple):
        least, most = replicas
        scaling["autoscaling_config"] = {"min_replicas": least, "max_replicas": most}
    else:
        scaling["num_replicas"] = checked_count("replicas", replicas)
    decorated = serve.deployment(
        name=name,
        ray_actor_options={"num_cpus": threads},
        max_ongoing_requests=checked_count("max_ongoing", max_ongoing),
        max_queued_requests=checked_count("max_queued", max_queued),
        **scaling,
    )(ModelReplica)
    return decorated.bind(store(model), threads)


def _inputs(body: bytes) -> dict[str, Any]:
    """The inputs of a request by name."""
    try:
        inputs = json.loads(body)["inputs"]
    except (ValueError, KeyError, TypeError):
        inputs = None
    if not isinstance(inputs, dict):
        raise UsageError(
            "the body of a request is JSON with inputs by name",
            help='write {"inputs": {"x": [[1.0, 2.0]]}}',
        )
    return inputs
