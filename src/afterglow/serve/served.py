"""One version of a model that takes requests: what it is, its queue and its counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import field, replace
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np

from afterglow.host.host import Host
from afterglow.runtime import CompiledModel
from afterglow.runtime.background import in_background
from afterglow.runtime.recorded import run_with_steps
from afterglow.runtime.signature import TensorInfo
from afterglow.runtime.trace import Row, Trace
from afterglow.serve.batching import Batcher, BatchLimits
from afterglow.serve.datatypes import datatype_of
from afterglow.serve.errors import invalid
from afterglow.serve.folder import FoundModel
from afterglow.serve.loading import LoadedModel, batch_dim, example_feed
from afterglow.serve.row_trial import paying_rows
from afterglow.serve.statistics import ServedStatistics
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array
from afterglow.types.dtype import Kind

Clock: TypeAlias = Callable[[], float]
"""Tells seconds, of the wall or of the processor."""
PLATFORM = "afterglow"
INLINE_SECONDS = 0.0002
"""Runs that are shorter are done on the event loop: a thread's wake-up would take as long."""
_TRIALS = 5
_SURELY_LONG = 10 * INLINE_SECONDS
_ANY = -1
"""How the protocol shows an extent that is not fixed."""


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
        self.inputs = {info.name: _Input.of(info) for info in loaded.model.inputs}
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
        for _ in range(_TRIALS):
            began = perf_counter()
            self._model_for(feed)(feed)
            seconds = perf_counter() - began
            if seconds < INLINE_SECONDS or seconds > _SURELY_LONG:
                return seconds < INLINE_SECONDS
        return False

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
        outputs = [_described(info) for info in self.outputs.values()]
        inputs = [_described(each.info) for each in self.inputs.values()]
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
            "input": [_configured(each.info, is_batched) for each in self.inputs.values()],
            "output": [_configured(info, is_batched) for info in self.outputs.values()],
            "instance_group": [
                {"name": "cpu", "count": self.batcher.limits.instances, "kind": "KIND_CPU"}
            ],
            **({"dynamic_batching": dynamic} if is_batched else {}),
        }


@dataclass(frozen=True)
class _Input:
    """An input, and what a request must give for it."""

    info: TensorInfo
    dtype: Any
    fixed: tuple[tuple[int, int], ...] = field(default=())
    """The axes whose extent is fixed, with it."""

    @staticmethod
    def of(info: TensorInfo) -> _Input:
        assert info.dtype is not None
        exact = ((a, e) for a, e in enumerate(info.shape or ()) if isinstance(e, int))
        return _Input(info, info.dtype.numpy, tuple(exact))

    def check(self, array: Array) -> None:
        """Raise unless an array is of the datatype and shape that the input has."""
        info, shape = self.info, array.shape
        if array.dtype != self.dtype:
            found = "BYTES" if array.dtype.hasobject else str(array.dtype)
            raise invalid(f"input {info.name!r} is {datatype_of(info.dtype)}, got {found}")
        if info.shape is None:
            return
        if len(shape) != len(info.shape) or any(shape[a] != e for a, e in self.fixed):
            raise invalid(
                f"input {info.name!r} has the shape {_extents(info)}, got {list(shape)}",
                help="-1 stands for any extent",
            )


def _extents(info: TensorInfo) -> list[int]:
    return [extent if isinstance(extent, int) else _ANY for extent in info.shape or ()]


def _described(info: TensorInfo) -> dict[str, Any]:
    return {"name": info.name, "datatype": datatype_of(info.dtype) or "", "shape": _extents(info)}


def _configured(info: TensorInfo, is_batched: bool) -> dict[str, Any]:
    datatype = datatype_of(info.dtype) or "INVALID"
    is_text = info.dtype is not None and info.dtype.kind is Kind.STRING
    dims = _extents(info)[1:] if is_batched else _extents(info)
    return {
        "name": info.name,
        "data_type": "TYPE_STRING" if is_text else f"TYPE_{datatype}",
        "dims": dims,
    }
