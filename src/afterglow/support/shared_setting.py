"""A setting of the whole process, changed for as long as any thread needs it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class SharedSetting:
    """Spans that may overlap: the first one changes the setting, the last one puts it back."""

    def __init__(self, change: Callable[[], Callable[[], object]]) -> None:
        self._change = change
        """Changes the setting, and returns what puts it back."""
        self._lock = threading.Lock()
        self._spans = 0
        self._restore: Callable[[], object] = lambda: None

    @contextmanager
    def changed(self) -> Iterator[None]:
        """A span."""
        with self._lock:
            if not self._spans:
                self._restore = self._change()
            self._spans += 1
        try:
            yield
        finally:
            with self._lock:
                self._spans -= 1
                if not self._spans:
                    self._restore()
