"""Joining neighbours, the best pair first, until no pair can be joined."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import TypeAlias

Rank: TypeAlias = Callable[[str, str], float | None]
"""How good it is to join two pieces: the least comes first; None if they cannot be joined."""


def merge(pieces: Sequence[str], rank: Rank) -> list[str]:
    """Pieces of a text, joined as long as two neighbours can be; of equals the left ones first.

    It takes time in proportion to the length, but for a logarithm.
    """
    parts = list(pieces)
    before = list(range(-1, len(parts) - 1))
    after = list(range(1, len(parts) + 1))
    heap: list[tuple[float, int, str]] = []

    def offer(left: int) -> None:
        right = after[left] if left >= 0 else len(parts)
        if left < 0 or right >= len(parts):
            return
        found = rank(parts[left], parts[right])
        if found is not None:
            heapq.heappush(heap, (found, left, parts[left] + parts[right]))

    for left in range(len(parts) - 1):
        offer(left)
    while heap:
        _, left, joined = heapq.heappop(heap)
        right = after[left]
        if not parts[left] or right >= len(parts) or parts[left] + parts[right] != joined:
            continue  # one of them was joined with another piece meanwhile
        parts[left], parts[right] = joined, ""
        after[left] = after[right]
        if after[right] < len(parts):
            before[after[right]] = left
        offer(before[left])
        offer(left)
    return [part for part in parts if part]
