"""A model on a device: which of its requests are there, and whether it works."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from time import monotonic

from afterglow.host.request import Request
from afterglow.runtime import CompiledModel
from afterglow.runtime.logical_device import LogicalDevice
from afterglow.runtime.streams import Streams
from afterglow.support.errors import AfterglowError, DeviceError

FIRST_PAUSE = 0.1
"""Seconds after its first failure for which a device gets no requests of a model."""
LONGEST_PAUSE = 30.0
"""Seconds that the pause, which doubles with each failed attempt, has at most."""
PURGED_AT = 64
"""Requests that wait for a placement before it is asked which of them were cancelled."""


@dataclass
class HostDevice:
    """A device of a host: its streams, and what is on it."""

    logical: LogicalDevice
    streams: Streams
    used_bytes: int = 0
    load: int = 0
    """Requests that run or wait there."""
    done: int = 0
    failures: int = 0

    @property
    def name(self) -> str:
        """What users call it."""
        return self.logical.name


@dataclass
class Placement:
    """A model on a device; but for `run`, the lock of the scheduler is held by who calls it."""

    device: HostDevice
    model: CompiledModel
    again: Callable[[], CompiledModel]
    """Loads the model anew, after a failure."""
    replicas: int
    """How many of its requests may run there at once."""
    needed_bytes: int
    running: int = 0
    done: int = 0
    waiting: list[Request] = field(default_factory=list)
    failure: AfterglowError | None = None
    """What the device said when it failed; None once it works again."""
    _pause: float = 0.0
    _until: float = 0.0
    _is_stale: bool = False
    _purge_at: int = PURGED_AT

    def run(self, request: Request) -> object:
        """Run a request, on a model that is loaded anew if it failed before."""
        if self._is_stale:
            try:
                self.model = self.again()
            except AfterglowError as error:
                raise DeviceError(
                    f"{request.model!r} cannot be loaded anew: {error.what}"
                ) from error
            self._is_stale = False
        return self.model(*request.arrays, **request.named)

    @property
    def is_up(self) -> bool:
        """Whether it may get requests: it works, or its pause is over."""
        return self.failure is None or monotonic() >= self._until

    @property
    def pause_left(self) -> float:
        """Seconds until it may get requests."""
        return 0.0 if self.failure is None else max(0.0, self._until - monotonic())

    @property
    def busyness(self) -> tuple[float, int]:
        """How much its device has to do for each stream; of equal ones, what it has done."""
        return self.device.load / self.device.streams.number, self.done

    def offer(self, request: Request) -> bool:
        """Take a request; whether it may run at once, or waits for another.

        After a failure there is one at a time, until one succeeds.
        """
        self.device.load += 1
        if self._has_room:
            self.running += 1
            return True
        if len(self.waiting) >= self._purge_at:
            self._purge()
        heappush(self.waiting, request)
        return False

    @property
    def _has_room(self) -> bool:
        return self.running < (self.replicas if self.failure is None else 1)

    def _purge(self) -> None:
        """Forget requests that were cancelled, so that they do not pile up behind one that runs."""
        left = [request for request in self.waiting if not request.future.done()]
        self.device.load -= len(self.waiting) - len(left)
        heapify(left)
        self.waiting, self._purge_at = left, max(PURGED_AT, 2 * len(left))

    def leave(self) -> Request | None:
        """One that ran is gone: the request that runs in its place, if one waits."""
        self.device.load -= 1
        self.running -= 1
        while self.waiting and self._has_room:
            request = heappop(self.waiting)
            if not request.future.done():
                self.running += 1
                return request
            self.device.load -= 1
        return None

    def succeed(self) -> None:
        """Note that a request ran."""
        self.failure, self._pause = None, 0.0
        self.done += 1
        self.device.done += 1

    def fail(self, error: AfterglowError) -> list[Request]:
        """Note that the device failed: the requests that waited for it, which go elsewhere."""
        if self.is_up:
            self._pause = min(max(2 * self._pause, FIRST_PAUSE), LONGEST_PAUSE)
            self._until = monotonic() + self._pause
        self.failure, self._is_stale = error, True
        self.device.failures += 1
        evicted, self.waiting = sorted(self.waiting), []
        self.device.load -= len(evicted)
        return evicted
