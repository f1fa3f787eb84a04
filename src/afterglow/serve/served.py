"""One version of a model that takes requests: what it is, its queue and its counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np

from afterglow.host.host import Host
from afterglow.runtime import CompiledModel
from afterglow.runtime.background import in_background
from afterglow.runtime.recorded import run_with_steps
from afterglow.runtime.trace import Row, Trace
from afterglow.serve.batching import Batcher, BatchLimits
from afterglow.serve.checked_input import CheckedInput, configured, described
from afterglow.serve.errors import invalid
from afterglow.serve.folder import FoundModel
from afterglow.serve.loading import LoadedModel, batch_dim, example_feed
from afterglow.serve.row_trial import paying_rows
from afterglow.serve.statistics import ServedStatistics
from afterglow.types import Array

Clock: TypeAlias = Callable[[], float]
"""Tells seconds, of the wall or of the processor."""
PLATFORM = "afterglow"
INLINE_SECONDS = 0.0002
"""Runs that are shorter are done on the event loop: a thread's wake-up would take as long."""
_TRIALS = 5
_SURELY_LONG = 10 * INLINE_SECONDS
"""Runs that are longer twice are tried no further."""


class ServedModel:
    """A version of a model on the host."""

    def __init__(
        self,
        found: FoundModel,
        loaded: LoadedModel,
        host: Host,
        key: str,
        limits: BatchLimits,
        statistics: ServedStatistics | None = None,
    ) -> None:
        self.found = found
        self.key = key
        self.reason = loaded.reason
        """Why requests are not joined; "" if they are."""
        self.inputs = {info.name: CheckedInput.of(info) for info in loaded.model.inputs}
        self.outputs = {info.name: info for info in loaded.model.outputs}
        self.statistics = statistics or ServedStatistics()
        self.batcher = Batcher(self._submit, limits, self.statistics)
        self.max_batch = limits.max_batch
        """Most rows of a run; `batcher.limits` says how many are joined."""
        self.is_inline = False
        """Whether it runs on the event loop."""
        self._host = host
        self._model = loaded.model
        self._single = loaded.single

    @property
    def name(self) -> str:
        """What clients call the model."""
        return self.found.name

    @property
    def version(self) -> str:
        """The version of it that this is."""
        return self.found.version

    @property
    def nbytes(self) -> int:
        """Bytes that it takes: of weights, code and intermediate results."""
        models = (self._model, self._single)
        return sum(m.memory.total_bytes for m in models if m is not None and m.versions())

    def add_to_host(self, devices: Sequence[str] | None) -> None:
        """Put it on devices of the host."""
        self._host.add(self.key, self._model, devices=devices)
        if self._single is not None:
            self._host.add(self._single_key, self._single, devices=devices)

    def remove_from_host(self) -> None:
        """Take it from the host, once its requests are done."""
        self._host.remove(self.key)
        if self._single is not None:
            self._host.remove(self._single_key)

    @property
    def _single_key(self) -> str:
        return f"{self.key} of one row"

    def _model_for(self, feed: Mapping[str, Array]) -> CompiledModel:
        """What runs it: the model for one row, or that for any number."""
        if self._single is None or any(len(array) != 1 for array in feed.values()):
            return self._model
        return self._single

    def _on_host(self, feed: Mapping[str, Array], priority: int = 0) -> Future[Any]:
        """Begin a run on the host."""
        key = self.key if self._model_for(feed) is self._model else self._single_key
        return self._host.submit(key, dict(feed), priority=priority)

    def feed(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Array]:
        """What a call in this process gives by position and by name, as arrays by name."""
        return self._model.feed(arrays, named)

    def _submit(self, feed: Mapping[str, Array], priority: int, trace: Trace | None) -> Future[Any]:
        if trace is not None:
            return in_background(lambda: self._traced(feed, trace), "traced run")
        if not self.is_inline:
            return self._on_host(feed, priority)
        ended: Future[Any] = Future()
        try:
            ended.set_result(self._model_for(feed)(dict(feed)))
        except Exception as error:
            ended.set_exception(error)
        return ended

    def _traced(self, feed: Mapping[str, Array], trace: Trace) -> Any:
        """Run with each step in a trace; the batcher counts it as one of the instances."""
        return run_with_steps(trace, Row("cpu", "steps"), self._model_for(feed), feed)

    def warm_up(self, clock: Clock | None) -> None:
        """Run it on each instance, so that requests find all in place.

        With a clock, requests are joined only as far as that saves its time. A model whose largest
        run takes less than a thread's wake-up will run on the event loop.
        """
        chance = np.random.default_rng(0)
        batch = batch_dim(self._model)
        self._run_on_all(example_feed(self._model, chance, {}))
        if self._single is not None and batch is not None:
            self._run_on_all(example_feed(self._model, chance, {batch: 2}))
        if not all(dim.isidentifier() for dim in self._model.dims):
            return
        if clock is not None and batch is not None:
            self._try_rows(batch, chance, clock)
        largest = {name: high for name, (_, high, _) in self._model.dims.items()}
        if batch is not None and batch in largest:
            largest[batch] = min(largest[batch], self.batcher.limits.max_batch)
        self.is_inline = self._is_short(example_feed(self._model, chance, largest))

    def _run_on_all(self, feed: Mapping[str, Array]) -> None:
        """Run it on all instances at once."""
        for run in [self._on_host(feed) for _ in range(self.batcher.limits.instances)]:
            run.result()

    def _try_rows(self, batch: str, chance: np.random.Generator, clock: Clock) -> None:
        """Lower the limit of rows that are joined to what pays."""

        def seconds(rows: int) -> float:
            feed = example_feed(self._model, chance, {batch: rows})
            began = clock()
            self._run_on_all(feed)
            return clock() - began

        limits = self.batcher.limits
        rows = paying_rows(seconds, limits.max_batch)
        self.batcher.limits = replace(limits, max_batch=rows)
        if rows == 1 < limits.max_batch:
            self.reason = "rows that run together take no less time than one after another"

    def _is_short(self, feed: Mapping[str, Array]) -> bool:
        """Whether a run takes less time than a thread's wake-up, in one of a few trials."""
        least = math.inf
        for trial in range(_TRIALS):
            began = perf_counter()
            self._model_for(feed)(feed)
            least = min(least, perf_counter() - began)
            if least < INLINE_SECONDS or (trial and least > _SURELY_LONG):
                break
        return least < INLINE_SECONDS

    def checked(self, given: Mapping[str, Array]) -> tuple[int, Any]:
        """The rows of a request, and the key of those it can be joined with; None for none."""
        if given.keys() != self.inputs.keys():
            self._refuse_names(given)
        rows, extents = 0, []
        for name, input in self.inputs.items():
            array = given[name]
            input.check(array)
            if self.max_batch > 1:
                if rows and rows != array.shape[0]:
                    raise invalid(f"input {name!r} has {array.shape[0]} rows, others have {rows}")
                rows = array.shape[0]
                extents.append(array.shape[1:])
        return (rows, tuple(extents)) if rows else (1, None)

    def _refuse_names(self, given: Mapping[str, Array]) -> None:
        unknown = [name for name in given if name not in self.inputs]
        listed = ", ".join(self.inputs)
        if unknown:
            raise invalid(
                f"model {self.name!r} has no input {unknown[0][:80]!r}", help=f"it has {listed}"
            )
        missing = next(name for name in self.inputs if name not in given)
        raise invalid(f"input {missing!r} is missing", help=f"the model takes {listed}")

    def metadata(self, versions: list[str]) -> dict[str, Any]:
        """What the protocol says of a model."""
        outputs = [described(info) for info in self.outputs.values()]
        inputs = [described(each.info) for each in self.inputs.values()]
        return {
            "name": self.name,
            "versions": versions,
            "platform": PLATFORM,
            "inputs": inputs,
            "outputs": outputs,
        }

    def config(self) -> dict[str, Any]:
        """How the model is served, as Triton's model configuration says it."""
        is_batched = self.max_batch > 1
        delay = round(self.batcher.limits.max_delay * 1e6)
        joined = self.batcher.limits.max_batch
        dynamic = {"preferred_batch_size": [joined], "max_queue_delay_microseconds": delay}
        return {
            "name": self.name,
            "platform": PLATFORM,
            "backend": PLATFORM,
            "max_batch_size": self.max_batch if is_batched else 0,
            "input": [configured(each.info, is_batched) for each in self.inputs.values()],
            "output": [configured(info, is_batched) for info in self.outputs.values()],
            "instance_group": [
                {"name": "cpu", "count": self.batcher.limits.instances, "kind": "KIND_CPU"}
            ],
            **({"dynamic_batching": dynamic} if is_batched else {}),
        }
