"""Which values of a few integers versions are compiled for, and where there are too many."""

from __future__ import annotations

from typing import Any

import numpy as np

from afterglow.frontends.base import MOST_DECIDING
from afterglow.runtime.content import Content, content_of

MOST_VALUES = 8
"""Of one input, or of one value that the model computes, so many get a version of their own."""


class BoundValues:
    """Counts the values of each input that shapes depend on.

    Once it had too many different ones, it is bound no more: the model is partitioned behind it.
    """

    def __init__(self, most: int = MOST_VALUES) -> None:
        self.most = most
        self.unbound: set[str] = set()
        self._seen: dict[str, set[Content]] = {}

    def takes(self, name: str, value: Any) -> bool:
        """Whether a version is to be compiled for this value."""
        if not is_few(value) or name in self.unbound:
            return False
        seen = self._seen.setdefault(name, set())
        seen.add(content_of(value))
        if len(seen) > self.most:
            self.unbound.add(name)
        return name not in self.unbound


def is_few(value: Any) -> bool:
    """Whether a value is of a few integers, or no tensor at all: then there is no other way."""
    if isinstance(value, list):
        return len(value) <= MOST_DECIDING and all(map(is_few, value))
    if not isinstance(value, np.ndarray):
        return True
    return value.dtype.kind in "iub" and value.size <= MOST_DECIDING
