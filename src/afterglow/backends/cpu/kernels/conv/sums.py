"""Sums of products in registers: some rows of x times a panel of weights, over all taps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from afterglow.backends.cpu.kernels.conv.columns import starts
from afterglow.backends.cpu.llvm.emitter import Emitter, Index, Pointer, Value, convert, smaller
from afterglow.backends.cpu.micro.partial_sums import FEW_TERMS, TERMS, block_size, sum_blocks
from afterglow.backends.cpu.micro.rows import Axes, split
from afterglow.backends.cpu.micro.tile import LINE, multiply_add

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

    def over(self, e: Emitter, taps: Axes) -> list[Value]:
        """The sums of the products, row by row; long ones in blocks, cut along one axis."""
        zeros = [e.constant(self.panel.dtype, 0, lanes) for lanes in self.widths] * len(self.rows)
        if 0 in taps.extents:
            return zeros
        outer, inner = _cut(taps) if self.panel.dtype.is_float else (Axes((), ()), taps)
        extent, lines = (inner.extents or (1,))[0], math.prod(inner.extents)
        unroll = 1 if inner.extents[1:] else _unroll(extent, len(zeros))
        size = block_size(extent, unroll, lines / extent) if self.panel.dtype.is_float else extent
        pieces = -(-extent // size)

        def block(number: Value) -> list[Value]:
            place, piece = split(number, pieces) if pieces > 1 else (number, 0)
            here = self._moved(outer.offset(place), place * lines)
            first = e.index(piece) * size
            last = smaller(first + size, extent) if extent % size else first + size
            return here._add(e, inner, zeros, (first, last))

        return sum_blocks(e, math.prod(outer.extents) * pieces, zeros, block)

    def _add(
        self, e: Emitter, taps: Axes, sums: list[Value], span: tuple[Value, Value]
    ) -> list[Value]:
        """Add the products to sums: a loop for each axis of the taps, of the first over a span."""
        extent, *inner = taps.extents or (1,)
        stride, *strides = taps.strides or (0,)
        if not inner:
            return self._innermost(e, extent, stride, sums, span)
        rest, lines = Axes(tuple(inner), tuple(strides)), math.prod(inner)

        def body(tap: Value, sums: list[Value]) -> list[Value]:
            here = self._moved(tap * stride, tap * lines)
            return here._add(e, rest, sums, (e.index(0), e.index(inner[0])))

        return e.fold(span[1], sums, body, start=span[0], name="tap")

    def _innermost(
        self, e: Emitter, extent: int, stride: int, sums: list[Value], span: tuple[Value, Value]
    ) -> list[Value]:
        """The last axis of the taps, several steps a turn; what is left at its end, one by one."""
        unroll = _unroll(extent, len(sums))
        start, stop = span
        whole = extent - extent % unroll

        def body(k: Value, sums: list[Value]) -> list[Value]:
            here = self._moved(k * stride, k)
            if self.fetches:
                here._fetch(unroll)
            return here._steps(unroll, stride, sums)

        if stop.constant == extent:
            sums = e.fold(whole, sums, body, start=start, step=unroll, name="k")
            return self._moved(whole * stride, whole)._steps(extent - whole, stride, sums)
        end = smaller(stop, whole) if whole < extent else stop
        sums = e.fold(end, sums, body, start=start, step=unroll, name="k")

        def single(k: Value, sums: list[Value]) -> list[Value]:
            return self._moved(k * stride, k)._steps(1, stride, sums)

        return sums if whole == extent else e.fold(stop, sums, single, start=end, name="k")

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

    def _moved(self, offset: Index, lines: Index) -> Sums:
        """Further on: rows by an offset, the panel by some lines."""
        moved: dict[str, Pointer] = {}
        for row in self.rows:
            if row.text not in moved:
                moved[row.text] = Pointer(row.code, row.dtype, row.text) + offset
        rows = [moved[row.text] + row.offset for row in self.rows]
        return replace(self, rows=rows, panel=self.panel + lines * sum(self.widths))

    def _fetch(self, lines: int) -> None:
        size = self.panel.dtype.itemsize
        for place in range(0, lines * sum(self.widths), LINE // size):
            self.panel.prefetch(AHEAD // size + place)


def _unroll(extent: int, sums: int) -> int:
    """Steps in one turn: few enough for short code, and without a rest if that can be."""
    most = max(2, min(8, MOST_UNROLLED // max(sums, 1)))
    fitting = [count for count in range(most, 2, -1) if extent % count == 0]
    return min(extent, fitting[0] if fitting else min(most, 4))


def _cut(taps: Axes) -> tuple[Axes, Axes]:
    """Axes that blocks are numbered by, and those within a block, of which the first may be cut."""
    axis, extents = 0, taps.extents
    while math.prod(extents[axis:]) > FEW_TERMS and 2 * math.prod(extents[axis + 1 :]) >= TERMS:
        axis += 1
    cut = range(axis), range(axis, len(taps.extents))
    outer, inner = (
        Axes(tuple(taps.extents[i] for i in part), tuple(taps.strides[i] for i in part))
        for part in cut
    )
    return outer, inner
