"""A model on a device: which of its requests are there, and whether it works."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field
from heapq import heapify, heappop, heappush
from time import monotonic

from afterglow.host.request import Request
from afterglow.runtime import CompiledModel
from afterglow.runtime.logical_device import LogicalDevice
from afterglow.runtime.streams import Streams
from afterglow.support.errors import AfterglowError, DeviceError
from afterglow.support.lazy_dataclass import dataclass

FIRST_PAUSE = 0.1
"""Seconds after its first failure for which a device gets no requests of a model."""
LONGEST_PAUSE = 30.0
"""Seconds that the pause, which doubles with each failed attempt, has at most."""
PURGED_AT = 64
"""Requests that wait for a placement before it is asked which of them were cancelled."""
TRIALS = 3
"""Requests of which the fastest tells how long the next will take: the first ones warm up."""
MUCH_SLOWER = 2.0
"""By which factor a device is slower that gets no request while another is free."""


def least_loaded(placements: Sequence[Placement]) -> Placement | None:
    """The one with the least to do, of those that are not much slower than others; None of none."""
    soonest = min((placement.expected_seconds for placement in placements), default=0.0)
    able = [p for p in placements if p.expected_seconds <= MUCH_SLOWER * soonest]
    return min(able, key=lambda placement: placement.busyness, default=None)


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
    taken: Sequence[tuple[HostDevice, int]] = ()
    """The bytes that it takes on devices."""
    running: int = 0
    done: int = 0
    fastest: float = math.inf
    """Seconds of the fastest request so far."""
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

    @property
    def expected_seconds(self) -> float:
        """About how long a further request would take; 0 until there were a few to tell by."""
        if self.done < TRIALS:
            return 0.0
        return self.fastest * (self.device.load + 1) / self.device.streams.number

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

    def succeed(self, seconds: float) -> None:
        """Note that a request ran, and how long."""
        self.failure, self._pause = None, 0.0
        self.fastest = min(self.fastest, seconds)
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
