"""A model as a deployment of Ray Serve."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ray import serve

from afterglow.ray.node_files import StoredModel, store
from afterglow.ray.replica import ModelReplica
from afterglow.runtime import CompiledModel
from afterglow.runtime.streams import checked_count
from afterglow.serve.folder import NAME
from afterglow.support.errors import UsageError


def deployment(
    model: str | Path | bytes | CompiledModel | StoredModel,
    *,
    name: str = "afterglow",
    replicas: int | tuple[int, int] = 1,
    threads: int = 1,
    max_batch: int = 8,
    max_ongoing: int = 8,
    max_queued: int = 100,
    autoscaling: dict[str, Any] | None = None,
) -> serve.Application:
    """An application for `ray.serve.run`: replicas of a model over the nodes of a cluster.

    `name` is that of the deployment, and of the model for clients over HTTP. `replicas` is their
    number, or the least and the most of them, between which Ray chooses by load; `autoscaling` are
    further settings of Ray for that, such as `target_ongoing_requests`. Each has `threads` cores,
    and works on at most `max_ongoing` requests, of which at most `max_batch` rows run together;
    `max_queued` further ones wait for each caller, one more is refused. A replica that dies is
    replaced.
    """
    if not NAME.fullmatch(name):
        raise UsageError(
            f"a deployment cannot be named {name!r}", help="use letters, digits, '_', '-' and '.'"
        )
    settings = {"threads": checked_count("threads", threads)}
    settings["max_batch"] = checked_count("max_batch", max_batch)
    settings["max_queue"] = checked_count("max_ongoing", max_ongoing)
    decorated = serve.deployment(
        name=name,
        ray_actor_options={"num_cpus": threads},
        max_ongoing_requests=max_ongoing,
        max_queued_requests=checked_count("max_queued", max_queued),
        **_scaling(replicas, autoscaling),
    )(ModelReplica)
    return decorated.bind(store(model), name, settings)


def _scaling(replicas: int | tuple[int, int], autoscaling: dict[str, Any] | None) -> dict[str, Any]:
    """How many replicas there are, as Ray takes it."""
    if isinstance(replicas, tuple):
        least, most = replicas
        bounds = {"min_replicas": least, "max_replicas": most}
        return {"autoscaling_config": {**(autoscaling or {}), **bounds}}
    if autoscaling is not None:
        raise UsageError(
            f"autoscaling needs bounds, got replicas={replicas!r}",
            help="write replicas=(LEAST, MOST)",
        )
    return {"num_replicas": checked_count("replicas", replicas)}
