"""The scheduler of a host: which request runs when, on which device.

Requests wait in one queue, by priority, until fewer than a limit are active; then each is given to
the least loaded device that has its model. All state is guarded by one lock, which is never held
while a model runs or a future gets its result.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import field
from heapq import heapify, heappop, heappush
from time import monotonic
from typing import Any

from afterglow.host.deadlines import Deadlines
from afterglow.host.placement import Placement, least_loaded
from afterglow.host.request import Request
from afterglow.host.statistics import Counters
from afterglow.runtime.streams import check_due, settle
from afterglow.support.errors import (
    AfterglowError,
    DeadlineError,
    DeviceError,
    QueueFullError,
    ShutdownError,
    UsageError,
)
from afterglow.support.lazy_dataclass import dataclass


@dataclass
class Entry:
    """A model of a host, on some of its devices."""

    name: str
    placements: list[Placement] = field(default_factory=list)
    counters: Counters = field(default_factory=Counters)
    open: int = 0
    """Requests that are not done."""
    is_ready: bool = False
    """Whether it takes requests: it is loaded, and is not being removed."""


class Scheduler:
    """Takes requests, and has each run by a device; `run` does it, on the stream of a device."""

    def __init__(
        self, run: Callable[[Request, Placement], Any], max_active: int, max_queue: int
    ) -> None:
        self.run = run
        self.max_active = max_active
        self.max_queue = max_queue
        self.entries: dict[str, Entry] = {}
        self.changed = threading.Condition()
        """Held by who reads or changes state; notified when a request is done."""
        self.is_closed = False
        self._open: dict[int, Request] = {}
        self._waiting: list[Request] = []
        self._active = 0
        self._is_pumping = False
        self._deadlines = Deadlines(self._expire)

    def submit(self, request: Request) -> None:
        """Take a request, or raise: there is no such model, or too many wait."""
        with self.changed:
            entry = self.entry(request.model)
            dead = self._drop_dead() if self._is_full else []
            refused = self._is_full
            if refused:
                entry.counters.refused += 1
            else:
                entry.counters.submitted += 1
                entry.open += 1
                self._open[request.number] = request
                heappush(self._waiting, request)
        for late in dead:
            self._expire(late)
        if refused:
            raise QueueFullError(
                f"the queue of the host is full: {self._active:,} requests are active and "
                f"{self.max_queue:,} are waiting",
                help="wait for some of them, or make the host with a higher max_queue",
            )
        request.future.add_done_callback(lambda _: self._cancelled(request))
        self._pump()
        self._deadlines.watch(request)

    def entry(self, name: str) -> Entry:
        """The model of a name, if it takes requests; the lock is held."""
        if self.is_closed:
            raise UsageError("the host is shut down")
        entry = self.entries.get(name) if isinstance(name, str) else None
        if entry is None or not entry.is_ready:
            known = ", ".join(name for name, entry in self.entries.items() if entry.is_ready)
            raise UsageError(
                f"the host has no model {name!r}",
                help=f"it has {known}" if known else "add one: host.add(NAME, MODEL)",
            )
        return entry

    @property
    def _is_full(self) -> bool:
        free = max(0, self.max_active - self._active)
        return len(self._waiting) >= self.max_queue + free

    def _drop_dead(self) -> list[Request]:
        states = [(request.is_dead, request) for request in self._waiting]  # asked once
        self._waiting = [request for is_dead, request in states if not is_dead]
        heapify(self._waiting)
        return [request for is_dead, request in states if is_dead]

    def _cancelled(self, request: Request) -> None:
        """Tell whoever waits for a request that is done that it is; all others know already."""
        request.announce()
        self._count(request, CancelledError())
        self._pump()

    def _expire(self, request: Request) -> None:
        """Give a request its error if its deadline has passed and it has not begun."""
        try:
            check_due(request.due)
        except DeadlineError as error:
            if request.withdraw():
                self._settle(request, error)

    def _fail(self, request: Request, error: BaseException) -> None:
        """Give whoever waits for a request an error, unless it is done."""
        if request.announce():
            self._settle(request, error)

    def _settle(self, request: Request, error: BaseException) -> None:
        self._count(request, error)
        settle(request.future, error=error)

    def _count(self, request: Request, error: BaseException | None = None) -> None:
        """Count a request that is done in some way; before it is, so that who waits sees it."""
        with self.changed:
            if self._open.pop(request.number, None) is None:
                return
            entry = self.entries[request.model]
            entry.open -= 1
            entry.counters.count(monotonic() - request.came, error)
            if request.is_active:
                self._active -= 1
            self.changed.notify_all()

    def _pump(self) -> None:
        """Give waiting requests to devices; one thread does it at a time, for all of them."""
        with self.changed:
            if self._is_pumping:
                return
            self._is_pumping = True
        while (request := self._next()) is not None:
            self._place(request)

    def _next(self) -> Request | None:
        """The next request to begin; None if there is none, and nobody pumps any more."""
        with self.changed:
            while self._waiting and self._active < self.max_active:
                request = heappop(self._waiting)
                if not request.future.done():
                    request.is_active = True
                    self._active += 1
                    return request
            self._is_pumping = False
            return None

    def _place(self, request: Request) -> None:
        """Give a request to the least loaded device that it has not failed on, or its error."""
        with self.changed:
            if request.future.done():  # it was given up, and the model may be gone
                return
            entry = self.entries[request.model]
            able = [
                placement
                for placement in entry.placements
                if placement.is_up and placement.device.name not in request.failures
            ]
            chosen = least_loaded(able)
            begins = chosen is not None and chosen.offer(request)
        if chosen is None:
            self._fail(request, _no_device(entry, request))
        elif begins:
            self._begin(request, chosen)

    def _begin(self, request: Request, placement: Placement) -> None:
        try:
            placement.device.streams.submit(
                lambda: self._execute(request, placement), priority=request.priority
            )
        except (AfterglowError, RuntimeError) as error:  # it is shut down, or has no threads
            self._fail(request, error)
            self._leave(placement)

    def _execute(self, request: Request, placement: Placement) -> None:
        try:
            if request.announce():
                self._attempt(request, placement)
        finally:
            self._leave(placement)

    def _attempt(self, request: Request, placement: Placement) -> None:
        if not placement.is_up:  # it failed while the request waited for the stream
            self._place(request)
            return
        try:
            check_due(request.due)
            began = monotonic()
            result = self.run(request, placement)
        except DeviceError as error:
            self._failed(request, placement, error)
        except BaseException as error:  # whatever it is, it belongs to who asked
            self._fail(request, error)
        else:
            with self.changed:
                placement.succeed(monotonic() - began)
            self._count(request)
            settle(request.future, result)

    def _failed(self, request: Request, placement: Placement, error: DeviceError) -> None:
        """Take a request, and those that wait for the same, from a device that failed."""
        request.failures[placement.device.name] = error
        with self.changed:
            evicted = placement.fail(error)
        for other in (request, *evicted):
            self._place(other)

    def _leave(self, placement: Placement) -> None:
        with self.changed:
            follows = placement.leave()
        if follows is not None:
            self._begin(follows, placement)

    def close(self, timeout: float | None) -> bool:
        """Take no more requests, and wait until all are done; whether they were in time."""
        with self.changed:
            self.is_closed = True
            return self.changed.wait_for(lambda: not self._open, timeout)

    def give_up(self) -> None:
        """Give every request that is not done an error."""
        self._deadlines.close()
        with self.changed:
            left = [*self._open.values()]
        for request in left:
            error = f"the host was shut down before the request of {request.model!r} was done"
            self._fail(request, ShutdownError(error))

    def counts(self, name: str) -> tuple[int, int]:
        """How many requests of a model are active, and how many wait; the lock is held."""
        own = [request for request in self._open.values() if request.model == name]
        active = sum(request.is_active for request in own)
        return active, len(own) - active


def _no_device(entry: Entry, request: Request) -> DeviceError:
    lines, pauses = [], []
    for placement in entry.placements:
        name = placement.device.name
        error = request.failures.get(name) or placement.failure
        lines.append(f"{name}: {error.what if error else 'failed'}")
        pauses.append(placement.pause_left)
    wait = max(min(pauses, default=0.0), 0.001)
    return DeviceError(
        f"no device can run {entry.name!r} now",
        excerpt=lines,
        help=f"submit the request again: a device is tried again in {wait:.3g} s",
    )
