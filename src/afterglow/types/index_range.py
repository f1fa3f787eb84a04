"""Allowed ranges of numbers in data that index memory: indices, lengths, counts."""

from __future__ import annotations

from typing import TypeAlias

from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class IndexRange:
    """The least and the largest allowed number; negative ones, if allowed, count from the end."""

    low: int
    high: int

    @staticmethod
    def places(extent: int) -> IndexRange:
        """The range of indices along an axis, counted from either end."""
        return IndexRange(-extent, extent - 1)

    @staticmethod
    def counts(most: int) -> IndexRange:
        """The range of numbers from 0 to a largest one."""
        return IndexRange(0, most)


IndexRanges: TypeAlias = tuple[IndexRange | None, ...]
"""The range of all elements of an operand, or of each index of its last axis; None: unlimited."""
