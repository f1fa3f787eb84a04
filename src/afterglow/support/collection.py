"""Python's search for garbage in cycles, put off while much is built that stays."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Pauses:
    """Those that are going on: the first begins a pause, the last ends it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.was_on = False

    def begin(self) -> None:
        with self.lock:
            if not self.count:
                self.was_on = gc.isenabled()
                gc.disable()
            self.count += 1

    def end(self, *, stays: bool) -> None:
        with self.lock:
            self.count -= 1
            if not self.count and self.was_on:
                if stays:
                    _grow_old()
                gc.enable()


def _grow_old() -> None:
    """Let all objects count as old, so that no search for young garbage goes through them.

    What is frozen already stays so, and then they stay young.
    """
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()


_PAUSES = _Pauses()


@contextmanager
def without_collecting(*, stays: bool = False) -> Iterator[None]:
    """Let no garbage be searched for meanwhile, in any thread; pauses may overlap.

    What is no longer referred to is freed as ever. The search that follows goes through all that
    was made, which is young, unless it `stays` anyway, as modules do.
    """
    _PAUSES.begin()
    try:
        yield
    finally:
        _PAUSES.end(stays=stays)
