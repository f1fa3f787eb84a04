"""A queue that holds each item at most once."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT", bound=Hashable)


class Worklist(Generic[ItemT]):
    """First in, first out; adding an item that waits already does nothing."""

    def __init__(self, items: Iterable[ItemT] = ()) -> None:
        self._queue: deque[ItemT] = deque()
        self._waiting: set[ItemT] = set()
        for item in items:
            self.add(item)

    def add(self, item: ItemT) -> None:
        """Append `item` unless it waits already."""
        if item not in self._waiting:
            self._waiting.add(item)
            self._queue.append(item)

    def take(self) -> ItemT:
        """Remove and return the item that waits longest."""
        item = self._queue.popleft()
        self._waiting.discard(item)
        return item

    def __bool__(self) -> bool:
        return bool(self._queue)
