"""One version of a model that takes requests: what it is, its queue and its counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import field
from time import perf_counter
from typing import Any

import numpy as np

from afterglow.host.host import Host
from afterglow.runtime.background import in_background
from afterglow.runtime.recorded import run_with_steps
from afterglow.runtime.signature import TensorInfo
from afterglow.runtime.trace import Row, Trace
from afterglow.serve.batching import Batcher, BatchLimits
from afterglow.serve.datatypes import datatype_of
from afterglow.serve.errors import invalid
from afterglow.serve.folder import FoundModel
from afterglow.serve.loading import LoadedModel, batch_dim, example_feed
from afterglow.serve.statistics import ServedStatistics
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array
from afterglow.types.dtype import Kind

PLATFORM = "afterglow"
INLINE_SECONDS = 0.0002
"""Runs that are shorter are done on the event loop: a thread's wake-up would take as long."""
_TRIALS = 5
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
        self.is_inline = False
        """Whether it runs on the event loop."""
        self._host = host
        self._model = loaded.model

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
        return self._model.memory.total_bytes if self._model.versions() else 0

    def feed(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Array]:
        """What a call in this process gives by position and by name, as arrays by name."""
        return self._model.feed(arrays, named)

    def _submit(self, feed: Mapping[str, Array], priority: int, trace: Trace | None) -> Future[Any]:
        if trace is not None:
            return in_background(lambda: self._traced(feed, trace), "traced run")
        if not self.is_inline:
            return self._host.submit(self.key, dict(feed), priority=priority)
        ended: Future[Any] = Future()
        try:
            ended.set_result(self._model(dict(feed)))
        except Exception as error:
            ended.set_exception(error)
        return ended

    def _traced(self, feed: Mapping[str, Array], trace: Trace) -> Any:
        """Run with each step in a trace; the batcher counts it as one of the instances."""
        return run_with_steps(trace, Row("cpu", "steps"), self._model, feed)

    def warm_up(self) -> None:
        """Run it on each instance, and with the largest batch, so that requests find all in place.

        A model whose largest batch takes less than a thread's wake-up will run on the event loop.
        """
        chance = np.random.default_rng(0)
        feed = example_feed(self._model, chance, {})
        for _ in range(self.batcher.limits.instances):
            self._host.run(self.key, feed)
        if not all(dim.isidentifier() for dim in self._model.dims):
            return
        batch = batch_dim(self._model)
        largest = {name: high for name, (_, high, _) in self._model.dims.items()}
        if batch is not None and batch in largest:
            largest[batch] = min(largest[batch], self.max_batch)
        feed = example_feed(self._model, chance, largest)
        times = []
        for _ in range(_TRIALS):
            began = perf_counter()
            self._model(feed)
            times.append(perf_counter() - began)
        self.is_inline = min(times) < INLINE_SECONDS

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
        batching = {"dynamic_batching": {"max_queue_delay_microseconds": delay}}
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
            **(batching if is_batched else {}),
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
