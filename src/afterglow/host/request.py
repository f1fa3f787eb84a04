"""A request: what is asked of a model, and the future that gets the answer."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from afterglow.support.errors import AfterglowError


@dataclass(order=True)
class Request:
    """One run of a model, in order by priority and then by age."""

    priority: int
    number: int
    model: str = field(compare=False)
    arrays: tuple[Any, ...] = field(compare=False)
    named: dict[str, Any] = field(compare=False)
    due: float | None = field(compare=False)
    future: Future[Any] = field(compare=False, default_factory=Future)
    came: float = field(compare=False, default_factory=monotonic)
    is_active: bool = field(compare=False, default=False)
    """Whether it was given to a device."""
    failures: dict[str, AfterglowError] = field(compare=False, default_factory=dict)
    """What the devices that failed with it said, by their names."""
    _lock: threading.Lock = field(compare=False, default_factory=threading.Lock)
    _is_announced: bool = field(compare=False, default=False)

    def announce(self) -> bool:
        """Tell whoever waits that it was cancelled, or that it cannot be any more.

        Whether it has still no result. A future must be told only once.
        """
        return self.withdraw() or self.future.running()

    def withdraw(self) -> bool:
        """Take it back, unless it has begun or is done; whether its future is to get an error."""
        with self._lock:
            if self._is_announced:
                return False
            self._is_announced = True
            return self.future.set_running_or_notify_cancel()

    @property
    def is_dead(self) -> bool:
        """Whether it will not run any more: it was cancelled, or is too late."""
        return self.future.done() or (self.due is not None and self.due < monotonic())
