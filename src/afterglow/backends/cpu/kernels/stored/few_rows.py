"""Products of few rows with a stored matrix: its words are taken apart in registers, for all rows.

Per span, a block or a part of the depth, sum (q - z) s x = s (sum q x - z sum x). Rows are put into
the form that words are multiplied by beforehand, and the sums of their spans are computed, once for
all panels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.matmul.output import GemmOutput, goes_through_memory
from afterglow.backends.cpu.kernels.stored.panels import PanelPointers, StoredPanels
from afterglow.backends.cpu.kernels.stored.row_forms import ByteRows, FloatRows, RowForm, peak_of
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    convert,
    fma,
    larger,
    reduce_sum,
    vector,
)
from afterglow.backends.cpu.micro.accumulate import by_rows
from afterglow.backends.cpu.micro.fusion import SourceRow
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase, Storage
from afterglow.backends.cpu.micro.lanes import full_lanes
from afterglow.backends.cpu.micro.tile import RegisterTile, each_height, each_tile
from afterglow.types.dtype import f32
from afterglow.types.extent import is_ranged, largest, smaller_extent, smallest

FEW = 4
"""Rows that are few, and of a tile at most."""
FEW_BYTES = 64
"""The same of rows in bytes, which tiles share."""
SPAN = 64
"""Numbers along the depth whose zero points are subtracted at once, if there are no blocks."""
MOST_VECTORS = 4
"""Vectors in a line of a panel, at most."""
SPARE = 3
"""Registers that are needed beside sums and words."""


def rows_of(r: KernelRequest) -> int:
    """The rows of the result."""
    return math.prod(r.step.outs[0].type.shape[:-1])


def row_forms(r: KernelRequest, rows: int) -> list[RowForm]:
    """The forms of rows: first bytes, where the machine has instructions for their products."""
    lanes = full_lanes(r.target, f32)
    panels = StoredPanels.of(r.step, lanes, lanes)
    sums = 2 if rows == 1 and r.target.vector_registers >= 32 else 1
    floats: list[RowForm] = [FloatRows(panels, sums)]
    return [ByteRows(panels), *floats] if ByteRows.suits(panels, r.target) else floats


def few_rows_tile(r: KernelRequest, rows: int, form: RowForm) -> RegisterTile:
    """The widest tile whose sums, totals and words fit in the registers."""
    lanes = full_lanes(r.target, f32)
    columns = r.step.required[1].type.shape[0]
    used = rows * (form.sums + 1) + form.registers
    fitting = (
        vectors
        for vectors in (MOST_VECTORS, 2)
        if used * vectors + SPARE <= r.target.vector_registers and vectors // 2 * lanes < columns
    )
    return RegisterTile(rows, next(fitting, 1), lanes)


@dataclass(frozen=True)
class _FewRows:
    """A product of few rows; if their number is ranged, of at most as many as a tile has."""

    panels: StoredPanels
    tile: RegisterTile
    form: RowForm
    rows: int

    @property
    def span(self) -> int:
        """Words of a span."""
        return (self.panels.block_size or SPAN) // self.panels.per_word

    @property
    def spans(self) -> int:
        """Spans, of which the last may have fewer words."""
        return -(-self.panels.words // self.span)

    @property
    def whole(self) -> int:
        """Spans that have all their numbers."""
        return self.panels.depth // (self.span * self.panels.per_word)

    @property
    def line(self) -> int:
        """Elements of a row in its form."""
        return self.panels.words * self.form.size

    @property
    def work(self) -> float:
        """Multiplications and additions."""
        return 2.0 * largest(self.rows) * self.panels.rows * self.panels.depth

    @property
    def workspace(self) -> dict[str, Storage]:
        """Memory for the rows, the sums of their spans, and what results are multiplied by."""
        rows = largest(self.rows)
        return {
            "rows": Storage(self.form.dtype, rows * self.line),
            "sums": Storage(f32, rows * self.spans),
            "factors": Storage(f32, rows),
        }


def few_rows_algorithm(
    r: KernelRequest, tile: RegisterTile, form: RowForm, most: int, used: int = 1
) -> Algorithm:
    """The product of so many rows at most; `used` is 0 in runs without it."""
    panels = StoredPanels.of(r.step, tile.columns, tile.lanes)
    rows = smaller_extent(rows_of(r), most)
    few = _FewRows(panels, tile, form, rows)
    scratch = {}
    if goes_through_memory(r, panels.rows, tile):
        scratch["few"] = Storage(f32, tile.rows * tile.columns)
    return Algorithm(
        "few-rows",
        few.work,
        partial(_write, few=few, used=used),
        KernelNeeds(few.workspace, scratch, panels.parts),
        {"tile": (tile.rows, tile.vectors, tile.lanes), "rows": form.name},
        is_exact=not form.is_relative,
    )


def _write(kernel: Kernel, few: _FewRows, used: int) -> None:
    """Write a product: first the rows, of which each is a unit, then panels."""
    elements = largest(few.rows) * few.panels.depth
    with kernel.phase(few.rows * used, 8.0 * elements, "rows") as p:
        _Rows(p, few).write()
    with kernel.phase(few.panels.count * used, few.work, "few") as p:
        _Product(p, few).write()


class _Rows:
    """The function that puts rows into their form, and sums up their spans."""

    def __init__(self, p: Phase, few: _FewRows) -> None:
        self.p, self.e, self.few = p, p.e, few
        self.per_word = few.panels.per_word
        self.source = p.source(0)

    def write(self) -> None:
        """Write all of it."""
        few, e, p = self.few, self.e, self.p
        made, sums, factors = (p.workspace(name) for name in ("rows", "sums", "factors"))
        with p.units() as row:
            given = self.source.row(row)
            factor = self._factor(given, factors + row) if few.form.is_relative else None
            to, totals = made + row * few.line, sums + row * few.spans
            with e.loop(few.whole, name="span") as span:
                total = self._words(given, to, span * few.span, few.span, factor)
                totals.store(-reduce_sum(total), span)
            if few.whole < few.spans:
                first = few.whole * few.span
                total = self._words(given, to, first, few.panels.words - first, factor)
                totals.store(-reduce_sum(total), few.whole)

    def _factor(self, given: SourceRow, to: Pointer) -> Value:
        """What a row is multiplied by; results are multiplied by its inverse, or are NaN."""

        def body(word: Value, found: list[Value]) -> list[Value]:
            x = given.load(word * self.per_word, self.per_word)
            return [larger(found[0], peak_of(x)), found[1] + x]

        whole = self.few.panels.depth // self.per_word
        zero = self.e.constant(f32, 0, self.per_word)
        peak, total = self.e.fold(whole, [zero.lane(0), zero], body, name="word")
        if (rest := self._last(given)) is not None:
            peak, total = larger(peak, peak_of(rest)), total + rest
        factor, inverse = self.few.form.factor(peak)
        every = reduce_sum(total)
        to.store(inverse + (every - every))  # not a number if one of the row is none
        return factor

    def _last(self, given: SourceRow) -> Value | None:
        """The numbers of the last word with zeros after them; None if it has all."""
        depth = self.few.panels.depth
        count = depth % self.per_word
        if not count:
            return None
        numbers = [given.load(depth - count + i) for i in range(count)]
        return vector([*numbers, *[self.e.constant(f32, 0)] * (self.per_word - count)])

    def _words(
        self, given: SourceRow, to: Pointer, first: Index, count: int, factor: Value | None
    ) -> Value:
        """Write the numbers of some words; returns their sum, as a vector."""
        per_word, size = self.per_word, self.few.form.size

        def put(x: Value, word: Value, total: Value) -> Value:
            scaled = x if factor is None else x * factor.splat(per_word)
            self.few.form.store(scaled, to + word * size)
            return total + scaled

        def body(index: Value, totals: list[Value]) -> list[Value]:
            word = index + first
            return [put(given.load(word * per_word, per_word), word, totals[0])]

        partial = isinstance(first, int) and self.few.panels.depth % per_word > 0
        zero = self.e.constant(f32, 0, per_word)
        (total,) = self.e.fold(count - partial, [zero], body, name="word")
        if partial and (rest := self._last(given)) is not None:
            total = put(rest, self.e.index(self.few.panels.words - 1), total)
        return total


@dataclass(frozen=True)
class _TileRows:
    """The rows of a tile: where they lie, the sums of their spans, and their factors."""

    count: int
    rows: Pointer
    sums: Pointer
    factors: Pointer


class _Product:
    """The function that multiplies all rows by panels."""

    def __init__(self, p: Phase, few: _FewRows) -> None:
        self.p, self.e, self.few = p, p.e, few
        self.panels, self.tile, self.form = few.panels, few.tile, few.form
        self.pointers = few.panels.pointers(p)
        self.rows, self.sums = p.workspace("rows"), p.workspace("sums")
        self.factors = p.workspace("factors")
        kept = goes_through_memory(p.kernel, few.panels.rows, few.tile)
        self.output = GemmOutput(p, few.panels.rows, few.tile, kept=kept, scratch="few")

    def write(self) -> None:
        """Write all of it; of a ranged number of rows, code for each."""
        with self.p.units() as unit:
            at, column = self.pointers.panel(unit), unit * self.tile.columns
            if not is_ranged(self.few.rows):
                self._put_tiles(at, column)
                return
            height, least = self.e.index(self.few.rows), smallest(self.few.rows)
            for rows in each_height(self.e, height, self.tile.rows, max(1, least)):
                self.output.begin(0, column, self._results(at, self._tile(0, rows)))
            self.output.finish(0, column, height)

    def _put_tiles(self, at: PanelPointers, column: Value) -> None:
        """The results of a known number of rows."""
        if self.few.rows <= self.tile.rows:
            self.output.put(0, column, self._results(at, self._tile(0, self.few.rows)))
            return
        for rows, first in each_tile(self.e, self.few.rows, self.tile.rows):
            self.output.put(first, column, self._results(at, self._tile(first, rows)))

    def _tile(self, first: Index, count: int) -> _TileRows:
        rows, sums = self.rows + first * self.few.line, self.sums + first * self.few.spans
        return _TileRows(count, rows, sums, self.factors + first)

    def _results(self, at: PanelPointers, tile: _TileRows) -> list[list[Value]]:
        """The results of a panel."""
        few, lanes = self.few, self.tile.lanes
        zeros = [self.e.constant(f32, 0, lanes)] * (tile.count * self.tile.vectors)

        def body(span: Value, totals: list[Value]) -> list[Value]:
            return self._span(at, tile, span, few.span, totals)

        flat = self.e.fold(few.whole, zeros, body, name="span")
        if few.whole < few.spans:
            last = self.panels.words - few.whole * few.span
            flat = self._span(at, tile, self.e.index(few.whole), last, flat)
        results = by_rows(flat, self.tile.vectors)
        if self.form.is_relative:
            factors = [tile.factors.load(row).splat(lanes) for row in range(tile.count)]
            results = [[x * factors[row] for x in own] for row, own in enumerate(results)]
        if not self.panels.block_size:
            scales = at.scales(0)
            results = [[x * scale for x, scale in zip(own, scales, strict=True)] for own in results]
        return results

    def _span(
        self, at: PanelPointers, tile: _TileRows, span: Value, count: int, totals: list[Value]
    ) -> list[Value]:
        """Add the products of a span, which has that many words."""
        form, lanes = self.form, self.tile.lanes
        zero = self.e.constant(form.sum_dtype, 0, lanes)

        def body(word: Value, sums: list[Value]) -> list[Value]:
            place = span * self.few.span + word
            first = tile.rows + place * form.size
            starts = [first + row * self.few.line for row in range(tile.count)]
            return form.add(starts, at.word_vectors(place), sums)

        sums = self.e.fold(count, [zero] * (len(totals) * form.sums), body, name="word")
        found = [form.total(own) for own in by_rows(sums, form.sums)]
        found = self._less_zeros(at, tile, span, found)
        if not self.panels.block_size:
            return [a + b for a, b in zip(totals, found, strict=True)]
        scales = at.scales(span) * tile.count
        return [fma(x, scale, total) for x, scale, total in zip(found, scales, totals, strict=True)]

    def _less_zeros(
        self, at: PanelPointers, tile: _TileRows, span: Value, sums: list[Value]
    ) -> list[Value]:
        """Sums less the zero points times the sum of the row."""
        if at.zero is None and self.panels.middle == 0:
            return sums
        block = span if self.panels.block_size else 0
        zeros = [convert(zero, f32) for zero in at.zeros(self.e, block)]
        made: list[Value] = []
        for row, own in enumerate(by_rows(sums, len(zeros))):
            total = (tile.sums + span).load(row * self.few.spans).splat(self.tile.lanes)
            made += [fma(total, zero, x) for zero, x in zip(zeros, own, strict=True)]
        return made
