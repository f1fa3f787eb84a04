"""Products of few rows with a stored matrix: numbers become floats in registers, for all rows.

Per block, sum (q - z) s x = s (sum q x - z sum x). The rows are multiplied by the factors of their
places in words beforehand, and their sums in each block are computed, once for all panels.
"""

from __future__ import annotations

import math
from functools import partial

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.matmul.output import GemmOutput, goes_through_memory
from afterglow.backends.cpu.kernels.stored.panels import PanelPointers, StoredPanels
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    constant_vector,
    convert,
    fma,
    reduce_sum,
)
from afterglow.backends.cpu.micro.accumulate import by_rows
from afterglow.backends.cpu.micro.fusion import SourceRow
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase, Storage
from afterglow.backends.cpu.micro.lanes import full_lanes
from afterglow.backends.cpu.micro.tile import ENOUGH_SUMS, RegisterTile, each_height
from afterglow.backends.cpu.target import Target
from afterglow.types.dtype import f32
from afterglow.types.extent import is_ranged, largest, smaller_extent, smallest

FEW = 4
"""Rows that are few."""
SPAN = 64
"""Numbers along the depth whose zero points are subtracted at once, if there are no blocks."""
MOST_VECTORS = 4
"""Vectors in a line of a panel, at most."""


def rows_of(r: KernelRequest) -> int:
    """The rows of the result."""
    return math.prod(r.step.outs[0].type.shape[:-1])


def few_rows_tile(rows: int, columns: int, target: Target) -> RegisterTile:
    """The tile whose sums, totals and words fit in the registers."""
    lanes = full_lanes(target, f32)
    fitting = (
        vectors
        for vectors in (MOST_VECTORS, 2)
        if (2 * rows + 1) * vectors + 3 <= target.vector_registers
        and (vectors // 2) * lanes < columns
    )
    return RegisterTile(rows, next(fitting, 1), lanes)


def few_rows_algorithm(r: KernelRequest, tile: RegisterTile, used: int = 1) -> Algorithm:
    """The product of as many rows as a tile has at most; `used` is 0 in runs without it."""
    panels = StoredPanels.of(r.step, tile.columns, tile.lanes)
    rows = smaller_extent(rows_of(r), tile.rows)
    work = 2.0 * largest(rows) * panels.rows * panels.depth
    spans = _spans(panels)
    workspace = {
        "scaled": Storage(f32, largest(rows) * panels.words * panels.per_word),
        "sums": Storage(f32, largest(rows) * spans),
    }
    scratch = {}
    if goes_through_memory(r, panels.rows, tile):
        scratch["few"] = Storage(f32, tile.rows * tile.columns)
    parts = (1, 2) if panels.zero is None else (1, 2, 3)
    return Algorithm(
        "few-rows",
        work,
        partial(_write, panels=panels, tile=tile, rows=rows, used=used),
        KernelNeeds(workspace, scratch, parts),
        {"tile": (tile.rows, tile.vectors, tile.lanes)},
    )


def _spans(panels: StoredPanels) -> int:
    return -(-panels.depth // (panels.block_size or SPAN))


def _write(kernel: Kernel, panels: StoredPanels, tile: RegisterTile, rows: int, used: int) -> None:
    """Write a product: first the rows, of which each is a unit, then panels."""
    with kernel.phase(rows * used, 4.0 * largest(rows) * panels.depth, "rows") as p:
        _Rows(p, panels).write()
    work = 2.0 * largest(rows) * panels.rows * panels.depth
    with kernel.phase(panels.count * used, work, "few") as p:
        _Product(p, panels, tile, rows).write()


class _Part:
    """What both phases know: how the depth is cut into spans."""

    def __init__(self, p: Phase, panels: StoredPanels) -> None:
        self.p, self.e, self.panels = p, p.e, panels
        self.per_word = panels.per_word
        self.span = (panels.block_size or SPAN) // self.per_word
        """Words of a span."""
        self.spans = _spans(panels)
        self.line = panels.words * self.per_word
        self.scaled, self.sums = p.workspace("scaled"), p.workspace("sums")

    @property
    def whole(self) -> int:
        """Spans that have all their numbers."""
        return self.panels.depth // (self.span * self.per_word)


class _Rows(_Part):
    """The function that multiplies rows by factors, and sums up their spans."""

    def write(self) -> None:
        """Write all of it."""
        source = self.p.source(0)
        with self.p.units() as row:
            given, made = source.row(row), self.scaled + row * self.line
            sums = self.sums + row * self.spans
            with self.e.loop(self.whole, name="span") as span:
                total = self._words(given, made, span * self.span, self.span)
                sums.store(-reduce_sum(total), span)
            if self.whole < self.spans:
                self._rest(given, made, sums)

    def _words(self, given: SourceRow, made: Pointer, first: Index, count: int) -> Value:
        """Multiply the numbers of some words; returns their sum, as a vector."""
        factors = constant_vector(self.e, f32, self.panels.factors)

        def body(word: Value, sums: list[Value]) -> list[Value]:
            place = (word + first) * self.per_word
            x = given.load(place, self.per_word)
            made.store(x * factors, place)
            return [sums[0] + x]

        zero = self.e.constant(f32, 0, self.per_word)
        return self.e.fold(count, [zero], body, name="word")[0]

    def _rest(self, given: SourceRow, made: Pointer, sums: Pointer) -> None:
        """The last span, which has fewer numbers; the last word is filled with zeros."""
        first, depth = self.whole * self.span, self.panels.depth
        words = depth // self.per_word
        total = reduce_sum(self._words(given, made, first, words - first))
        for place in range(words * self.per_word, self.line):
            x = given.load(place) if place < depth else self.e.constant(f32, 0)
            made.store(x * self.panels.factors[place % self.per_word], place)
            total = total + x
        sums.store(-total, self.whole)


class _Product(_Part):
    """The function that multiplies all rows by panels."""

    def __init__(self, p: Phase, panels: StoredPanels, tile: RegisterTile, rows: int) -> None:
        super().__init__(p, panels)
        self.tile, self.rows = tile, rows
        self.pointers = panels.pointers(p)
        kept = goes_through_memory(p.kernel, panels.rows, tile)
        self.output = GemmOutput(p, panels.rows, tile, kept=kept, scratch="few")

    def write(self) -> None:
        """Write all of it; of a ranged number of rows, code for each."""
        with self.p.units() as unit:
            at, column = self.pointers.panel(unit), unit * self.tile.columns
            if not is_ranged(self.rows):
                self.output.put(0, column, self._totals(at, self.rows))
                return
            height, least = self.e.index(self.rows), smallest(self.rows)
            for rows in each_height(self.e, height, self.tile.rows, max(1, least)):
                self.output.begin(0, column, self._totals(at, rows))
            self.output.finish(0, column, height)

    def _totals(self, at: PanelPointers, rows: int) -> list[list[Value]]:
        """The results of a panel."""
        zero = self.e.constant(f32, 0, self.tile.lanes)
        totals = [zero] * (rows * self.tile.vectors)

        def body(span: Value, totals: list[Value]) -> list[Value]:
            return self._span(at, rows, span, self.span, totals)

        totals = self.e.fold(self.whole, totals, body, name="span")
        if self.whole < self.spans:
            last = self.panels.words - self.whole * self.span
            totals = self._span(at, rows, self.e.index(self.whole), last, totals)
        if self.panels.block_size:
            return by_rows(totals, self.tile.vectors)
        scales = at.scales(0)
        return [
            [total * scale for total, scale in zip(row, scales, strict=True)]
            for row in by_rows(totals, self.tile.vectors)
        ]

    def _span(
        self, at: PanelPointers, rows: int, span: Value, count: int, totals: list[Value]
    ) -> list[Value]:
        """Add the products of a span, which has that many words."""
        vectors, blocked = self.tile.vectors, self.panels.block_size > 0
        sums = self._starts(at, rows, span)
        chains = 2 if len(sums) < ENOUGH_SUMS and self.p.target.vector_registers >= 32 else 1
        sums += [sum.like(0) for sum in sums] * (chains - 1)

        def body(word: Value, sums: list[Value]) -> list[Value]:
            return self._word(at, rows, span * self.span + word, sums, chains)

        sums = self.e.fold(count, sums, body, name="word")
        size = rows * vectors
        if chains > 1:
            sums = [a + b for a, b in zip(sums[:size], sums[size:], strict=True)]
        if not blocked:
            return [total + sum for total, sum in zip(totals, sums, strict=True)]
        scales = at.scales(span)
        return [
            fma(sum, scales[i % vectors], total)
            for i, (total, sum) in enumerate(zip(totals, sums, strict=True))
        ]

    def _starts(self, at: PanelPointers, rows: int, span: Value) -> list[Value]:
        """What sums begin with: less the zero points times the sum of the row."""
        if at.zero is None and self.panels.middle == 0:
            return [self.e.constant(f32, 0, self.tile.lanes)] * (rows * self.tile.vectors)
        block = span if self.panels.block_size else 0
        zeros = [convert(zero, f32) for zero in at.zeros(self.e, block)]
        starts: list[Value] = []
        for row in range(rows):
            total = (self.sums + span).load(row * self.spans).splat(self.tile.lanes)
            starts += [total * zero for zero in zeros]
        return starts

    def _word(
        self, at: PanelPointers, rows: int, word: Value, sums: list[Value], chains: int
    ) -> list[Value]:
        """Add the products of the numbers in a line of words."""
        lines = at.word_vectors(word)
        first, size = self.scaled + word * self.per_word, rows * len(lines)
        made = list(sums)
        for place in range(self.per_word):
            xs = [first.load(row * self.line + place).splat(self.tile.lanes) for row in range(rows)]
            for v, words in enumerate(lines):
                numbers = self.panels.field(words, place)
                for row, x in enumerate(xs):
                    number = place % chains * size + row * len(lines) + v
                    made[number] = fma(x, numbers, made[number])
        return made
