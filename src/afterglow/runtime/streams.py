"""Streams: the worker threads of a logical device, and the bounded queue of work they share."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from time import monotonic
from typing import Any, TypeVar

from afterglow.support.errors import DeadlineError, QueueFullError, ShutdownError, UsageError

Result = TypeVar("Result")

QUEUE_LIMIT = 100
"""Pieces of work that may wait for the streams of a device, unless another limit is given."""

UNBOUNDED = 1 << 20
"""A limit that is never met, for work that its givers wait for or limit themselves."""


class Streams:
    """The streams of a device: threads that each do one piece of work at a time.

    Work with a lower number as its priority starts first, of equal ones what came first. The
    threads begin with the first work, and end once the object is shut down or forgotten.
    """

    def __init__(self, device: str, number: int = 1, *, limit: int = QUEUE_LIMIT) -> None:
        self.device = device
        self.number = checked_count("streams", number)
        self._queue = _Queue(device, checked_count("the limit of a queue", limit))
        self._threads: list[Stream] = []
        self._starting = threading.Lock()
        weakref.finalize(self, self._queue.close)

    def submit(
        self, work: Callable[[], Result], *, priority: int = 0, deadline: float | None = None
    ) -> Future[Result]:
        """Have a stream do some work; an error comes with the result.

        Work that has not begun when its deadline, in seconds from now, has passed is not begun.
        Raises a `QueueFullError` if too much is waiting.
        """
        item = _Item(priority, self._queue.next_number(), work, due(deadline))
        self._start()
        self._queue.put(item)
        return item.future

    @property
    def waiting(self) -> int:
        """How much work waits."""
        return self._queue.live

    @property
    def busy_seconds(self) -> float:
        """The seconds that streams have worked, those of all of them added up."""
        now = monotonic()
        begun = [thread.since for thread in self._threads]
        return sum(t.worked for t in self._threads) + sum(now - at for at in begun if at)

    def shutdown(self, *, drain: bool = True, timeout: float | None = None) -> bool:
        """Take no further work, and wait for what there is; whether the streams have ended.

        Without `drain`, what has not begun gets a `ShutdownError`, as all that is not done after
        `timeout` seconds; what still runs then goes on, but nobody gets its result.
        """
        ends = None if timeout is None else monotonic() + timeout
        self._queue.close(drain=drain)
        with self._starting:
            threads = [t for t in self._threads if t is not threading.current_thread()]
        for thread in threads:
            thread.join(None if ends is None else max(0.0, ends - monotonic()))
        ended = not any(thread.is_alive() for thread in threads)
        if not ended:
            self._queue.close(drain=False)
            for thread in threads:
                thread.abandon()
        return ended

    def _start(self) -> None:
        if len(self._threads) == self.number:
            return
        with self._starting:
            for place in range(len(self._threads), self.number):
                stream = Stream(self.device, place, self._queue)
                stream.start()
                self._threads.append(stream)


class Stream(threading.Thread):
    """A thread that takes work from a queue until the queue is closed and empty."""

    def __init__(self, device: str, place: int, queue: _Queue) -> None:
        super().__init__(name=f"{device} stream {place}", daemon=True)
        self.place = place
        self.worked = 0.0
        """Seconds of work that is done."""
        self.since: float | None = None
        """When it began what it does; None if it waits."""
        self._queue = queue
        self._current: _Item | None = None

    def run(self) -> None:
        """Work, until there is none left and none will come."""
        while (item := self._queue.take()) is not None:
            self.since, self._current = monotonic(), item
            item.run()
            self.worked += monotonic() - self.since
            self.since = self._current = None
            del item  # which an idle stream must not keep alive

    def abandon(self) -> None:
        """Give whoever waits for what it does an error."""
        item = self._current
        if item is not None and item.future.running():
            why = f"{self.name} was shut down before the work was done"
            settle(item.future, error=ShutdownError(why))


@dataclass(order=True)
class _Item:
    """A piece of work in a queue, by priority and then by age."""

    priority: int
    number: int
    work: Callable[[], Any] = field(compare=False)
    due: float | None = field(compare=False)
    future: Future[Any] = field(compare=False, default_factory=Future)

    def run(self) -> None:
        """Do the work, unless it was cancelled or is too late."""
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            check_due(self.due)
            result = self.work()
        except BaseException as error:  # whatever it is, it belongs to who asked for the work
            settle(self.future, error=error)
        else:
            settle(self.future, result)

    @property
    def is_dead(self) -> bool:
        """Whether it will not be done any more: it was cancelled, or is too late."""
        return self.future.cancelled() or (self.due is not None and self.due < monotonic())

    def give_up(self, why: str) -> None:
        """Give whoever waits for it an error, unless it was cancelled; it has not begun."""
        if self.future.set_running_or_notify_cancel():
            settle(self.future, error=ShutdownError(why))


class _Queue:
    """Work by priority, never more than a limit of it."""

    def __init__(self, device: str, limit: int) -> None:
        self.device = device
        self.limit = limit
        self._items: list[_Item] = []
        self._changed = threading.Condition()
        self._closed = False
        self._numbers = count()

    def next_number(self) -> int:
        """The next of the numbers by which work of one priority is in order."""
        return next(self._numbers)

    @property
    def live(self) -> int:
        """How much is waiting that may still be done."""
        with self._changed:
            return sum(not item.is_dead for item in self._items)

    def put(self, item: _Item) -> None:
        """Add work; raise if there is no room, also without what will not be done any more."""
        dead: list[_Item] = []
        with self._changed:
            if self._closed:
                raise UsageError(f"the streams of device {self.device!r} are shut down")
            if len(self._items) >= self.limit:
                dead = self._drop_dead()
            is_full = len(self._items) >= self.limit
            if not is_full:
                heappush(self._items, item)
                self._changed.notify()
        for late in dead:
            late.run()  # which gives it its error
        if is_full:
            raise QueueFullError(
                f"the queue of device {self.device!r} is full: {self.limit:,} requests are waiting",
                help="wait for some of them, or give the queue a higher limit",
            )

    def _drop_dead(self) -> list[_Item]:
        states = [(item.is_dead, item) for item in self._items]  # asked once: time passes
        self._items = [item for is_dead, item in states if not is_dead]
        heapify(self._items)
        return [item for is_dead, item in states if is_dead]

    def take(self) -> _Item | None:
        """The next work, once there is some; None if there will be none."""
        with self._changed:
            while not self._items:
                if self._closed:
                    return None
                self._changed.wait()
            return heappop(self._items)

    def close(self, *, drain: bool = False) -> None:
        """Take no more work; without `drain`, give up what is waiting."""
        with self._changed:
            self._closed = True
            left = [] if drain else self._items
            self._items = self._items if drain else []
            self._changed.notify_all()
        for item in left:
            item.give_up(f"device {self.device!r} was shut down before the work began")


def due(deadline: float | None) -> float | None:
    """The time, by the monotonic clock, that is some seconds from now."""
    if deadline is None:
        return None
    if isinstance(deadline, bool) or not isinstance(deadline, (int, float)) or deadline != deadline:
        raise UsageError(
            f"a deadline must be a number of seconds, got {deadline!r}",
            help="write deadline=0.5 for half a second from now",
        )
    return monotonic() + deadline


def check_due(due: float | None) -> None:
    """Raise if a time has passed by which something was to begin."""
    late = 0.0 if due is None else monotonic() - due
    if late > 0:
        raise DeadlineError(
            f"the deadline passed {late * 1e3:.1f} ms before the request could begin",
            help="give it more time or a lower priority number, or add devices or replicas",
        )


def settle(future: Future[Any], result: Any = None, *, error: BaseException | None = None) -> bool:
    """Give a future its result or error; whether it had none before."""
    with suppress(InvalidStateError):
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
        return True
    return False


def checked_count(what: str, given: Any) -> int:
    """A whole number above 0 that a caller gives for something."""
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise UsageError(f"{what} must be a whole number above 0, got {given!r}")
    return given
