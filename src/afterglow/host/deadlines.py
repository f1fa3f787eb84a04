"""Deadlines: who tells requests that have not begun in time, while all devices are busy."""

from __future__ import annotations

import threading
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from time import monotonic

from afterglow.host.request import Request

PURGED_AT = 256
"""Deadlines that are held before it is asked which of their requests are done."""


class Deadlines:
    """Calls `expire` with each request whose deadline passes; a thread waits for the next."""

    def __init__(self, expire: Callable[[Request], None]) -> None:
        self._expire = expire
        self._changed = threading.Condition()
        self._dues: list[tuple[float, Request]] = []
        self._purge_at = PURGED_AT
        self._is_watching = False

    def watch(self, request: Request) -> None:
        """Watch the deadline of a request, if it has one."""
        if request.due is None:
            return
        with self._changed:
            if len(self._dues) >= self._purge_at:
                self._dues = [each for each in self._dues if not each[1].future.done()]
                heapify(self._dues)
                self._purge_at = max(PURGED_AT, 2 * len(self._dues))
            heappush(self._dues, (request.due, request))
            if self._is_watching:
                self._changed.notify()
                return
            self._is_watching = True
        threading.Thread(target=self._watch, name="afterglow deadlines", daemon=True).start()

    def _watch(self) -> None:
        while (request := self._next()) is not None:
            self._expire(request)

    def _next(self) -> Request | None:
        """The next request that is late, once it is; None if there are no deadlines any more."""
        with self._changed:
            while self._dues:
                left = self._dues[0][0] - monotonic()
                if left < 0:
                    return heappop(self._dues)[1]
                self._changed.wait(min(left, threading.TIMEOUT_MAX))
            self._is_watching = False
            return None

    def close(self) -> None:
        """Forget all deadlines."""
        with self._changed:
            self._dues.clear()
            self._changed.notify()
