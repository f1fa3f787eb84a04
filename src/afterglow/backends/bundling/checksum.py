"""A sum over the data of a bundle, by which programs recognise what belongs to them."""

from __future__ import annotations

import numpy as np

from afterglow.types import Array

FIRST, STEP = 0x9E3779B97F4A7C15, 0x3C6EF372FE94F82A
"""The factor of the first word, and how it grows: all factors are odd, so each bit matters."""
FOLD = 32
"""By how many bits words are folded: else factors would not tell the topmost bits apart."""
_AT_ONCE = 1 << 20
"""Words that are summed at once: more would need much memory."""


def checksum(block: Array) -> int:
    """The sum of all words, each times an odd factor of its own."""
    words = block.view(np.uint64)
    return sum(_sum_of(words[i : i + _AT_ONCE], i) for i in range(0, len(words), _AT_ONCE)) % 2**64


def _sum_of(words: Array, first: int) -> int:
    numbers = np.arange(first, first + len(words), dtype=np.uint64)
    factors = np.uint64(FIRST) + numbers * np.uint64(STEP)
    return int(((words ^ (words >> np.uint64(FOLD))) * factors).sum(dtype=np.uint64))
