"""The actor that runs a stage of a model on a node."""

from __future__ import annotations

from typing import Any

import ray

from afterglow.ray.node_files import StoredModel
from afterglow.runtime.partitioned.stages import Stage
from afterglow.types import Array


class StageActor:
    """A stage, loaded; Ray starts it again, perhaps elsewhere, if its process or node dies."""

    def __init__(self, stored: StoredModel, threads: int | None) -> None:
        self.model = stored.load(threads)

    def run(self, *arrays: Array) -> Any:
        """The results of a stage: one, or a list that becomes several objects."""
        names = (info.name for info in self.model.inputs)
        results = self.model.run(None, dict(zip(names, arrays, strict=True)))
        return results[0] if len(results) == 1 else results

    def node(self) -> str:
        """The node that it is on, once it is ready."""
        return str(ray.get_runtime_context().get_node_id())


def start_actor(stage: Stage, stored: StoredModel, resources: dict[str, float]) -> Any:
    """An actor for a stage, on a node that has the memory and the cores for it."""
    threads = stage.threads or 1
    remote = ray.remote(StageActor).options(
        num_cpus=threads,
        memory=stage.memory,
        resources=resources,
        max_restarts=-1,
        scheduling_strategy="SPREAD",
    )
    return remote.remote(stored, threads)
