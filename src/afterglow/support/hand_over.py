"""How soon a thread that computes in Python lets another one have Python's lock."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SOON = 1e-4
"""Seconds after which a thread hands the lock over, if another one waits for it."""


class _Hurries:
    """Those that are going on: the first begins one, the last ends it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.before = SOON

    def begin(self) -> None:
        with self.lock:
            if not self.count:
                self.before = sys.getswitchinterval()
                sys.setswitchinterval(min(SOON, self.before))
            self.count += 1

    def end(self) -> None:
        with self.lock:
            self.count -= 1
            if not self.count:
                sys.setswitchinterval(self.before)


_HURRIES = _Hurries()


@contextmanager
def quick_hand_over() -> Iterator[None]:
    """Let threads that need Python's lock but for a moment have it soon: usually it takes 5 ms."""
    _HURRIES.begin()
    try:
        yield
    finally:
        _HURRIES.end()
