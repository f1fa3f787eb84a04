"""The time that is left."""

from __future__ import annotations

import time


class Clock:
    """Counts down from a number of seconds."""

    def __init__(self, seconds: float) -> None:
        self._begin = time.monotonic()
        self._end = self._begin + seconds

    @property
    def passed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._begin

    @property
    def left(self) -> float:
        """Seconds until the end; negative after it."""
        return self._end - time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether nothing new may begin."""
        return self.left <= 0

    def at_most(self, seconds: float) -> float:
        """As many seconds, or what is left."""
        return max(0.1, min(seconds, self.left))
