"""What numbers may be that data give and that point into memory: indices, lengths, counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class IndexRange:
    """The least and the largest number that is allowed; where negative ones are, from the end."""

    low: int
    high: int

    @staticmethod
    def places(extent: int) -> IndexRange:
        """Places along an axis, counted from either end."""
        return IndexRange(-extent, extent - 1)

    @staticmethod
    def counts(most: int) -> IndexRange:
        """Numbers from none to all."""
        return IndexRange(0, most)


IndexRanges: TypeAlias = tuple[IndexRange | None, ...]
"""One for all elements of an operand, or one for each place along its last axis; None for any."""
