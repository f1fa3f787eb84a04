"""Sets of positions in a buffer: where a view lies, and what has been written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class Extent:
    """Runs of consecutive positions: one at `start`, repeated at the strides of `outer`.

    An axis of `outer` is how often and how far apart; two extents that are equal are the same set.
    """

    start: int
    run: int
    outer: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def of(start: int, axes: Sequence[tuple[int, int]], unit: int = 1) -> Extent:
        """The positions start + sum of i * stride, for i below each count; `unit` wide each."""
        if any(count == 0 for count, _ in axes):
            return Extent(start * unit, 0)
        start += sum((count - 1) * stride for count, stride in axes if stride < 0)
        moving = sorted((abs(stride) * unit, count) for count, stride in axes if count > 1)
        run = unit
        outer: list[tuple[int, int]] = []
        for stride, count in moving:
            if stride <= run and not outer:
                run += stride * (count - 1)
            else:
                outer.append((count, stride))
        return Extent(start * unit, run, tuple(outer))

    @property
    def end(self) -> int:
        """One past the last position."""
        return self.start + self.run + sum((count - 1) * stride for count, stride in self.outer)

    def within(self, mask: Mask) -> Mask:
        """Its positions in a mask, as a view of the mask; it must lie inside."""
        shape = [*(count for count, _ in self.outer), self.run]
        strides = [*(stride for _, stride in self.outer), 1]
        return np.lib.stride_tricks.as_strided(mask[self.start :], shape, strides)

    def meets(self, other: Extent) -> bool:
        """Whether they have a position in common."""
        if not self.run or not other.run or self.start >= other.end or other.start >= self.end:
            return False
        if not self.outer and not other.outer:
            return True
        mask = np.zeros(max(self.end, other.end), np.bool_)
        self.within(mask)[...] = True
        return bool(other.within(mask).any())


class Coverage:
    """The positions of a buffer that have been written.

    Intervals while those are enough; a mask as soon as something scattered is added.
    """

    def __init__(self, size: int, *, full: bool) -> None:
        self.size = size
        self.spans: list[tuple[int, int]] = [(0, size)] if full else []
        self.mask: Mask | None = None

    def add(self, extent: Extent) -> None:
        """They are written now."""
        if self.spans == [(0, self.size)] or not extent.run:
            return
        if extent.outer or (self.mask is not None and extent.run < self.size):
            self._scatter(extent, written=True)
            return
        low, high = extent.start, extent.end
        touching = [span for span in self.spans if span[0] <= high and span[1] >= low]
        apart = [span for span in self.spans if span[0] > high or span[1] < low]
        bounds = [*touching, (low, high)]
        self.spans = sorted([*apart, (min(a for a, _ in bounds), max(b for _, b in bounds))])
        self.mask = None

    def remove(self, extent: Extent) -> None:
        """They hold nothing any more."""
        if not extent.run:
            return
        if extent.outer or self.mask is not None:
            self._scatter(extent, written=False)
            return
        low, high = extent.start, extent.end
        pieces = [p for a, b in self.spans for p in ((a, min(b, low)), (max(a, high), b))]
        self.spans = [(a, b) for a, b in pieces if a < b]

    def gap(self, extent: Extent) -> int | None:
        """The first of the positions that is not written, None if all are."""
        if self.spans == [(0, self.size)] or not extent.run:
            return None
        if extent.outer or self.mask is not None:
            return self._scattered_gap(extent)
        reached = extent.start
        for low, high in self.spans:
            if low <= reached < high:
                reached = high
        return reached if reached < extent.end else None

    def _scatter(self, extent: Extent, *, written: bool) -> None:
        mask = self._as_mask()
        extent.within(mask)[...] = written
        if mask.all():
            self.spans, self.mask = [(0, self.size)], None
        else:
            self.spans, self.mask = [], mask

    def _scattered_gap(self, extent: Extent) -> int | None:
        part = extent.within(self._as_mask())
        if part.all():
            return None
        where = np.unravel_index(int(np.argmin(part)), part.shape)
        strides = [*(stride for _, stride in extent.outer), 1]
        return extent.start + sum(int(i) * s for i, s in zip(where, strides, strict=True))

    def _as_mask(self) -> Mask:
        if self.mask is not None:
            return self.mask
        mask = np.zeros(self.size, np.bool_)
        for low, high in self.spans:
            mask[low:high] = True
        return mask
