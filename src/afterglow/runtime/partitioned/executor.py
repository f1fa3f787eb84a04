"""Runs the parts of a program on the streams of their devices, each as soon as it can.

Parts that need nothing of each other run at the same time on different devices, and so do parts of
different runs: while one is on the second device, the next is on the first. Each device works on
one part at a time; one that has a memory of its own on two, so that the copies of one overlap with
the arithmetic of the other.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from itertools import count
from types import MappingProxyType

from afterglow.runtime.device import DeviceBuffer
from afterglow.runtime.partitioned.graph import PartGraph
from afterglow.runtime.partitioned.loaded import LoadedPart, Values
from afterglow.runtime.partitioned.resident import run_on_buffers, stays_of, works_on_buffers
from afterglow.runtime.streams import UNBOUNDED, Stream, Streams, settle
from afterglow.runtime.trace import Row, current_recording
from afterglow.types import Array


class Executor:
    """The streams of the devices of a program, and what each part waits for.

    Devices that are `shared`, by name, have streams already.
    """

    def __init__(
        self, graph: PartGraph, parts: Sequence[LoadedPart], shared: Mapping[str, Streams]
    ) -> None:
        self.shared = shared
        self.graph = graph
        self.parts = tuple(parts)
        self.stays = stays_of(graph, parts)
        self.needs = _needs(graph)
        self.followers = [
            [other for other, needed in enumerate(self.needs) if place in needed]
            for place in range(len(parts))
        ]
        self.numbers = count()
        self._streams: dict[str, Streams] = {}
        self._process = 0
        self._making = threading.Lock()

    def run(self, values: Values, states: Mapping[str, DeviceBuffer]) -> list[Array]:
        """Run once on values that hold the inputs, and wait for the results."""
        return _Run(self, self.streams(), values, states).start().result()

    def streams(self) -> Mapping[str, Streams]:
        """The streams of each device, by its name; those of another process are left behind."""
        if self._process != os.getpid():
            with self._making:
                if self._process != os.getpid():
                    self._streams = {**_streams_of(self.parts), **self.shared}
                    self._process = os.getpid()
        return self._streams


def _streams_of(parts: Sequence[LoadedPart]) -> dict[str, Streams]:
    """One stream for each device, or two if copies to its memory can overlap with arithmetic."""
    names = dict.fromkeys(part.name for part in parts)
    alone = {part.name for part in parts if not works_on_buffers(part)}
    return {name: Streams(name, 1 if name in alone else 2, limit=UNBOUNDED) for name in names}


def _needs(graph: PartGraph) -> list[set[int]]:
    """The parts that each part waits for: those that make what it reads, or have its states."""
    makers = {
        name: place
        for place, part in enumerate(graph.parts)
        for name in part.outputs
        if name not in graph.inputs  # which a part may return as it is
    }
    last: dict[str, int] = {}
    needs = []
    for place, part in enumerate(graph.parts):
        states = [port.name for port in part.artifact.interface.states]
        before = {last[name] for name in states if name in last}
        needs.append({makers[name] for name in graph.reads(part) if name in makers} | before)
        last.update(dict.fromkeys(states, place))
    return needs


class _Run:
    """One run of a program: the values so far, and the parts that are left."""

    def __init__(
        self,
        executor: Executor,
        streams: Mapping[str, Streams],
        values: Values,
        states: Mapping[str, DeviceBuffer],
    ) -> None:
        self.executor = executor
        self.streams = streams
        self.states = states
        self.number = next(executor.numbers)
        self.values = values
        self.future: Future[list[Array]] = Future()
        self.recording = current_recording()
        self._missing = [len(needed) for needed in executor.needs]
        self._under_way = 0
        self._error: BaseException | None = None
        self._lock = threading.Lock()

    def start(self) -> Future[list[Array]]:
        """Begin with all parts that need only the inputs; the future gets results or an error."""
        first = [place for place, missing in enumerate(self._missing) if not missing]
        self._under_way = len(first)
        self._submit(first)
        return self.future

    def _submit(self, places: Sequence[int]) -> None:
        """Give parts to the streams of their devices; older runs have precedence.

        Where there is other work, too, parts are in order with that.
        """
        for place in places:
            name = self.executor.parts[place].name
            priority = 0 if name in self.executor.shared else self.number
            try:
                work = self.streams[name].submit(partial(self._execute, place), priority=priority)
            except BaseException as error:
                self._done(place, error=error)
            else:
                work.add_done_callback(partial(self._dropped, place))

    def _dropped(self, place: int, work: Future[None]) -> None:
        """End a run whose part was never begun, because its streams were shut down."""
        error = work.exception()
        if error is not None:
            self._done(place, error=error)

    def _execute(self, place: int) -> None:
        """Run a part; this is called on a stream of its device."""
        if self._error is not None:
            self._done(place)
            return
        try:
            results, on_device = self._results(place)
        except BaseException as error:  # whatever it is, it belongs to who asked for the run
            self._done(place, error=error)
        else:
            self._done(place, results, on_device)

    def _results(self, place: int) -> tuple[Mapping[str, Array], Mapping[str, DeviceBuffer]]:
        loaded, stay, here = self.executor.parts[place], self.executor.stays[place], self.recording
        if here is not None:
            stream = threading.current_thread()
            assert isinstance(stream, Stream)
            here = replace(here, row=Row(loaded.name, f"stream {stream.place}"))
        if stay.is_used or (here is not None and works_on_buffers(loaded)):
            return run_on_buffers(loaded, stay, self.values, here)
        return loaded.results(self.values, self.states, here), {}

    def _done(
        self,
        place: int,
        results: Mapping[str, Array] = MappingProxyType({}),
        on_device: Mapping[str, DeviceBuffer] = MappingProxyType({}),
        *,
        error: BaseException | None = None,
    ) -> None:
        """Note that a part has ended, and begin what it was the last to be waited for."""
        with self._lock:
            self._error = self._error or error
            ready = []
            if self._error is None:
                self.values.add(self.executor.graph.parts[place], results, on_device)
                ready = self._ready(place)
            self._under_way += len(ready) - 1
            is_over = self._under_way == 0
        self._submit(ready)
        if is_over:
            self._finish()

    def _ready(self, place: int) -> list[int]:
        """The parts that waited for a part, and for none of the others any more."""
        ready = []
        for follower in self.executor.followers[place]:
            self._missing[follower] -= 1
            if not self._missing[follower]:
                ready.append(follower)
        return ready

    def _finish(self) -> None:
        """Give the results, or the first error: nothing of the run is under way any more."""
        if self._error is not None:
            settle(self.future, error=self._error)
            return
        try:
            settle(self.future, [self.values[name] for name in self.executor.graph.outputs])
        except BaseException as error:
            settle(self.future, error=error)
