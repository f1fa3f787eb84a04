"""Sums of products in registers: some rows of x times a panel of weights, over all taps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from afterglow.backends.cpu.emitter import Emitter, Index, Pointer, Value, convert
from afterglow.backends.cpu.kernels.conv.columns import starts
from afterglow.backends.cpu.kernels.tile import LINE, multiply_add
from afterglow.backends.cpu.rows import Axes

MOST_UNROLLED = 112
"""Multiplications in one turn of the innermost loop."""
AHEAD = 4096
"""Bytes of a panel between what is read and what is fetched: a page, where hardware stops."""


@dataclass(frozen=True)
class Sums:
    """What is multiplied: pointers to rows of x (best at constant offsets), and a panel.

    A panel has a line for each tap, of vectors with `widths` lanes. One that is not in a cache yet
    is fetched while it is read.
    """

    rows: Sequence[Pointer]
    panel: Pointer
    widths: tuple[int, ...]
    fetches: bool = False

    def over(self, e: Emitter, taps: Axes, sums: Sequence[Value]) -> list[Value]:
        """Add the products to sums, row by row: a loop for each axis of the taps."""
        if 0 in taps.extents:
            return list(sums)
        extent, *inner = taps.extents or (1,)
        stride, *strides = taps.strides or (0,)
        if not inner:
            return self._innermost(e, extent, stride, list(sums))
        rest, lines = Axes(tuple(inner), tuple(strides)), math.prod(inner)

        def body(tap: Value, sums: list[Value]) -> list[Value]:
            return self._moved(tap, stride, lines).over(e, rest, sums)

        return e.fold(extent, sums, body, name="tap")

    def _innermost(self, e: Emitter, extent: int, stride: int, sums: list[Value]) -> list[Value]:
        """The last axis of the taps, several steps a turn."""
        unroll = _unroll(extent, len(sums))
        whole = extent - extent % unroll

        def body(k: Value, sums: list[Value]) -> list[Value]:
            here = self._moved(k, stride, 1)
            if self.fetches:
                here._fetch(unroll)
            return here._steps(unroll, stride, sums)

        sums = e.fold(whole, sums, body, step=unroll, name="k")
        return self._moved(whole, stride, 1)._steps(extent - whole, stride, sums)

    def _steps(self, count: int, stride: int, sums: list[Value]) -> list[Value]:
        """Steps along the depth in a row: an element of each row times a line of the panel."""
        for step in range(count):
            line = self.panel + step * sum(self.widths)
            vectors = [line.load(start, lanes) for start, lanes in starts(self.widths)]
            added = []
            for number, row in enumerate(self.rows):
                factor = convert(row.load(step * stride), sums[0].dtype)
                for v, vector in enumerate(vectors):
                    before = sums[number * len(vectors) + v]
                    added.append(multiply_add(factor.splat(vector.lanes), vector, before))
            sums = added
        return sums

    def _moved(self, count: Index, stride: int, lines: int) -> Sums:
        """Further on: rows by a stride each time, the panel by some lines."""
        moved: dict[str, Pointer] = {}
        for row in self.rows:
            if row.text not in moved:
                moved[row.text] = Pointer(row.code, row.dtype, row.text) + count * stride
        rows = [moved[row.text] + row.offset for row in self.rows]
        return replace(self, rows=rows, panel=self.panel + count * (lines * sum(self.widths)))

    def _fetch(self, lines: int) -> None:
        size = self.panel.dtype.itemsize
        for place in range(0, lines * sum(self.widths), LINE // size):
            self.panel.prefetch(AHEAD // size + place)


def _unroll(extent: int, sums: int) -> int:
    """Steps in one turn: few enough for short code, and without a rest if that can be."""
    most = max(2, min(8, MOST_UNROLLED // max(sums, 1)))
    fitting = [count for count in range(most, 2, -1) if extent % count == 0]
    return min(extent, fitting[0] if fitting else min(most, 4))
