"""Requests of one model: they wait in a bounded queue, are joined to batches, and run on the host.

All of it happens on the event loop; only the runs themselves are on the threads of the host.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from heapq import heappop, heappush
from itertools import count
from time import perf_counter
from typing import Any, TypeAlias

from afterglow.runtime.trace import Trace
from afterglow.serve.errors import ErrorKind, RequestError
from afterglow.serve.job import Feed, Job, joined, trace_of
from afterglow.serve.statistics import ServedStatistics
from afterglow.support.errors import AfterglowError, DeadlineError, DeviceError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

Submit: TypeAlias = Callable[[Feed, int, Trace | None], "Future[Any]"]
"""Begins to run a model on arrays by name, with a priority; a trace is to get its steps."""


@dataclass(frozen=True)
class BatchLimits:
    """How far requests are joined, and how many may wait and run."""

    max_batch: int = 1
    max_delay: float = 0.0
    instances: int = 1
    max_queue: int = 256


class Batcher:
    """Runs the requests of a model, several at once where they can be joined."""

    def __init__(self, submit: Submit, limits: BatchLimits, statistics: ServedStatistics) -> None:
        self._submit = submit
        self.limits = limits
        self.statistics = statistics
        self.running = 0
        """Runs that have begun and are not done."""
        self.waiting = 0
        """Requests that have not begun."""
        self._is_pumping = False
        self._queue: list[Job] = []
        self._numbers = count()
        self._timer: asyncio.TimerHandle | None = None
        self._idle: asyncio.Event | None = None

    async def run(
        self,
        feed: Feed,
        rows: int,
        key: Any,
        priority: int,
        timeout: float | None,
        *,
        is_traced: bool = False,
    ) -> tuple[list[Array], Job]:
        """The outputs for a request; who cancels it takes it from the queue."""
        loop = asyncio.get_running_loop()
        if self.waiting >= self.limits.max_queue:
            raise RequestError(
                ErrorKind.BUSY,
                f"{self.waiting:,} requests of the model are waiting, which is the limit",
                help="send it again later",
            )
        answer: asyncio.Future[list[Array]] = loop.create_future()
        number, came = next(self._numbers), perf_counter()
        job = Job(priority, number, feed, rows, key, answer, came, is_traced)
        heappush(self._queue, job)
        self.waiting += 1
        late = None if timeout is None else loop.call_later(timeout, self._expire, job)
        if not self._is_pumping:  # soon, so that what has arrived with it is joined
            self._is_pumping = True
            loop.call_soon(self._pump)
        try:
            return await answer, job
        except asyncio.CancelledError:
            self._drop(job)
            raise
        finally:
            if late is not None:
                late.cancel()

    def _drop(self, job: Job) -> None:
        """Forget a request that nobody waits for, if it has not begun."""
        if not job.began:
            job.began = perf_counter()
            self.waiting -= 1
            self._tell_idle()

    def _expire(self, job: Job) -> None:
        if not job.began:
            self._drop(job)
            if not job.answer.done():
                job.answer.set_exception(DeadlineError("the request did not begin in time"))

    def _pump(self) -> None:
        """Begin runs while there are requests and free instances."""
        self._is_pumping = False
        while self.running < self.limits.instances and (batch := self._next()):
            self._begin(batch)

    def _next(self) -> list[Job]:
        """The requests of the next run; none if there are none, or a fuller batch is awaited."""
        while self._queue and self._queue[0].began:
            heappop(self._queue)
        if not self._queue:
            return []
        limits, first = self.limits, self._queue[0]
        waited = perf_counter() - first.came
        if limits.max_delay > waited and self.waiting < limits.max_batch:
            if self._timer is None:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(limits.max_delay - waited, self._awake)
            return []
        return self._collected()

    def _awake(self) -> None:
        self._timer = None
        self._pump()

    def _collected(self) -> list[Job]:
        """The first request, and those behind it that can be joined to it."""
        batch, rows, others = [heappop(self._queue)], 0, []
        rows = batch[0].rows
        while self._queue and rows < self.limits.max_batch and batch[0].key is not None:
            job = heappop(self._queue)
            if job.began:
                continue
            if job.key == batch[0].key and rows + job.rows <= self.limits.max_batch:
                batch.append(job)
                rows += job.rows
            else:
                others.append(job)
        for job in others:
            heappush(self._queue, job)
        return batch

    def _begin(self, batch: Sequence[Job]) -> None:
        began = perf_counter()
        for job in batch:
            job.began = began
            self.statistics.queue.add(began - job.came)
        self.waiting -= len(batch)
        self.running += 1
        loop = asyncio.get_running_loop()
        try:
            feed = batch[0].feed if len(batch) == 1 else joined(batch)
            ready = perf_counter()
            priority = min(job.priority for job in batch)
            future = self._submit(feed, priority, trace_of(batch))
        except BaseException as error:
            self._ended(batch, error)
            return

        if future.done():  # it ran right here
            loop.call_soon(self._settle, batch, began, ready, future, perf_counter())
            return

        def done(ended: Future[Any]) -> None:
            now = perf_counter()
            loop.call_soon_threadsafe(self._settle, batch, began, ready, ended, now)

        future.add_done_callback(done)

    def _settle(
        self, batch: Sequence[Job], began: float, ready: float, ended: Future[Any], now: float
    ) -> None:
        error = ended.exception() if not ended.cancelled() else asyncio.CancelledError()
        for job in batch:
            job.ended = now
        if error is not None:
            self._ended(batch, error)
            return
        self.statistics.ran(sum(job.rows for job in batch), ready - began, now - ready)
        result = ended.result()
        outputs = list(result) if isinstance(result, (tuple, list)) else [result]
        start = 0
        for job in batch:
            stop = start + job.rows
            if not job.answer.done():
                mine = outputs if len(batch) == 1 else [each[start:stop] for each in outputs]
                job.answer.set_result(mine)
            start = stop
        self._leave()

    def _ended(self, batch: Sequence[Job], error: BaseException) -> None:
        """Give a request its error; requests that were joined run again, each on its own."""
        alone = len(batch) == 1 or isinstance(error, DeviceError)
        for job in batch:
            if job.answer.done():
                continue
            if alone or not isinstance(error, AfterglowError):
                job.answer.set_exception(error)
            else:
                job.began, job.key = 0.0, None
                heappush(self._queue, job)
                self.waiting += 1
        self._leave()

    def _leave(self) -> None:
        self.running -= 1
        self._pump()
        self._tell_idle()

    def _tell_idle(self) -> None:
        if self._idle is not None and not self.running and not self.waiting:
            self._idle.set()

    async def drained(self) -> None:
        """Wait until no request waits or runs."""
        if self.running or self.waiting:
            self._idle = asyncio.Event()
            await self._idle.wait()
