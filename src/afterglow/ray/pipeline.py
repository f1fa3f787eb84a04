"""A model in stages on the nodes of a cluster, several requests in flight."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any

import ray

from afterglow.ray.attempts import Patience, first_result
from afterglow.ray.node_files import opened, store
from afterglow.ray.stage_actor import start_actor
from afterglow.runtime import CompiledModel
from afterglow.runtime.model import one_or_all
from afterglow.runtime.partitioned.stages import stages_of
from afterglow.runtime.streams import QUEUE_LIMIT, Streams, checked_count
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class PipelineStatistics:
    """What became of the requests of a pipeline."""

    answered: int = 0
    failed: int = 0
    """Requests that ended with an error."""
    repeated: int = 0
    """Attempts beyond the first of each request."""


class Pipeline:
    """A partitioned model whose stages are actors; values pass between their nodes.

    `model` is a saved model, or a compiled one: partitioned over logical devices, each of which
    becomes a stage with its threads and its memory. `replicas` is how many actors each stage has,
    or a number for each stage by the name of its device. `resources` are further resources of Ray
    that a stage requires, by the same names. At most `max_active` requests are in flight, by
    default two for each actor of the first stage and one for each further stage; `max_queue`
    further ones wait, one more is refused.

    If a process or a node dies, its requests are tried again for up to `retry_for` seconds, then
    answered with an error. A request that takes longer than `slow_after` seconds is also given to
    other replicas; the first answer counts.
    """

    def __init__(
        self,
        model: str | Path | CompiledModel,
        *,
        replicas: int | Mapping[str, int] = 1,
        resources: Mapping[str, Mapping[str, float]] | None = None,
        max_active: int | None = None,
        max_queue: int = QUEUE_LIMIT,
        retry_for: float = 60.0,
        slow_after: float | None = None,
        ready_within: float = 300.0,
    ) -> None:
        self.model = opened(model)
        self.stages = stages_of(self.model)
        names = [stage.name for stage in self.stages.parts]
        counts = _counts(names, replicas)
        _check_names("resources", resources or {}, names)
        self._retry_for, self._slow_after = retry_for, slow_after
        # which actors that start again read: it is lost once nothing refers to it
        self._stored = [store(stage.content) for stage in self.stages.parts]
        self._actors = [
            [
                start_actor(stage, stored, dict((resources or {}).get(stage.name, {})))
                for _ in range(counts[stage.name])
            ]
            for stage, stored in zip(self.stages.parts, self._stored, strict=True)
        ]
        self.nodes = self._await(ready_within)
        active = max_active or 2 * len(self._actors[0]) + len(self._actors) - 1
        self._streams = Streams("pipeline", checked_count("max_active", active), limit=max_queue)
        self._numbers = count()
        self._statistics, self._counting = PipelineStatistics(), threading.Lock()

    def _await(self, seconds: float) -> dict[str, list[str]]:
        """The nodes of the replicas of each stage, once all are ready."""
        asked = [[actor.node.remote() for actor in actors] for actors in self._actors]
        try:
            found = [ray.get(references, timeout=seconds) for references in asked]
        except ray.exceptions.GetTimeoutError as error:
            needs = ", ".join(f"{s.name}: {s.memory:,} bytes" for s in self.stages.parts)
            self._end()
            raise UsageError(
                f"the cluster had no place for all stages within {seconds:g} s",
                where=f"they need {needs}, and a core for each thread",
                help="add nodes, or compile the model for more, smaller devices",
            ) from error
        return {stage.name: nodes for stage, nodes in zip(self.stages.parts, found, strict=True)}

    @property
    def statistics(self) -> PipelineStatistics:
        """What became of requests so far."""
        with self._counting:
            return self._statistics

    def submit(
        self, *arrays: Any, priority: int = 0, deadline: float | None = None, **named: Any
    ) -> Future[list[Any]]:
        """Begin a request, given what a call of the model takes; the list of its outputs.

        A request that has not begun `deadline` seconds from now gets a `DeadlineError`.
        """
        feed = self.model.feed(arrays, named)
        values = [feed[info.name] for info in self.model.inputs]
        return self._streams.submit(
            partial(self._request, values), priority=priority, deadline=deadline
        )

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """Run a request and wait for it; one output, or a tuple of several."""
        return one_or_all(self.submit(*arrays, **named).result())

    def _request(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs of one request; this is called on a thread of the pipeline."""
        number = next(self._numbers)
        given = dict(zip(self.stages.inputs, map(ray.put, inputs), strict=True))

        def start(attempt: int) -> Sequence[Any]:
            self._count(repeated=int(attempt > 0))
            return self._send(given, number + attempt)

        try:
            outputs = first_result(start, Patience(self._retry_for, self._slow_after))
        except BaseException:
            self._count(failed=1)
            raise
        self._count(answered=1)
        return outputs

    def _send(self, given: Mapping[str, Any], number: int) -> list[Any]:
        """Send a request through the stages; the references of its outputs."""
        values = dict(given)
        for stage, actors in zip(self.stages.parts, self._actors, strict=True):
            call = actors[number % len(actors)].run.options(num_returns=len(stage.outputs))
            results = call.remote(*(values[name] for name in stage.inputs))
            listed = results if len(stage.outputs) > 1 else [results]
            values.update(zip(stage.outputs, listed, strict=True))
        return [values[name] for name in self.stages.outputs]

    def _count(self, **more: int) -> None:
        with self._counting:
            now = self._statistics
            added = {name: getattr(now, name) + number for name, number in more.items()}
            self._statistics = replace(now, **added)

    def close(self, timeout: float | None = None) -> None:
        """Answer what is under way, then end all actors."""
        self._streams.shutdown(timeout=timeout)
        self._end()

    def _end(self) -> None:
        for actors in self._actors:
            for actor in actors:
                ray.kill(actor)

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _counts(names: Sequence[str], replicas: int | Mapping[str, int]) -> dict[str, int]:
    """The number of replicas of each stage."""
    if not isinstance(replicas, Mapping):
        return dict.fromkeys(names, checked_count("replicas", replicas))
    _check_names("replicas", replicas, names)
    return {name: checked_count("replicas", replicas.get(name, 1)) for name in names}


def _check_names(what: str, given: Mapping[str, Any], names: Sequence[str]) -> None:
    unknown = next((name for name in given if name not in names), None)
    if unknown is not None:
        raise UsageError(
            f"{what}: the model has no stage {unknown!r}", help=f"it has {', '.join(names)}"
        )
