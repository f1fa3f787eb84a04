"""Products of tiles of rows with a stored matrix, whose numbers are taken from words as they meet.

Per span, a block or a part of one, sum (s (q - z) + m) x = s (sum q x - z sum x) + m sum x. Rows
are put into the form that quads are multiplied by beforehand, and the sums of their spans are
computed, once for all panels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.matmul.output import GemmOutput, goes_through_memory
from afterglow.backends.cpu.kernels.stored.panels import QUADS, PanelPointers, StoredPanels
from afterglow.backends.cpu.kernels.stored.prepare import PreparedRows, RowsPhase
from afterglow.backends.cpu.kernels.stored.quads import QuadSpan, quad_products
from afterglow.backends.cpu.kernels.stored.row_forms import (
    PARTS,
    FloatRows,
    IntegerRows,
    RowForm,
    RowsForFloats,
)
from afterglow.backends.cpu.llvm.emitter import Index, Pointer, Value, convert, fma
from afterglow.backends.cpu.micro.accumulate import by_rows
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase, Storage
from afterglow.backends.cpu.micro.tile import (
    RegisterTile,
    each_height,
    each_tile,
    least_height,
    ranged_tile,
)
from afterglow.ops.stored import Activations, StoredMatMul
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import f32, u32
from afterglow.types.extent import is_ranged, largest, smaller_extent, smallest

TILE_ROWS = 4
"""Rows of a tile at most."""
FEW = 2
"""Rows for which words are taken apart in registers; for more, a panel becomes bytes first."""


def rows_of(r: KernelRequest) -> int:
    """The rows of the result."""
    return math.prod(r.step.outs[0].type.shape[:-1])


def rounded_block(r: KernelRequest) -> int:
    """How many neighbours of a row are rounded to 8 bits with one scale; 0 if they are not."""
    assert isinstance(r.step.op, StoredMatMul)
    return r.step.op.row_block if r.step.op.activations is Activations.INT8 else 0


def row_forms(r: KernelRequest) -> list[RowForm]:
    """The forms of rows, the fastest first: integers, where a machine multiplies them faster."""
    panels = StoredPanels.of(r.step, r.target)
    bits, dtype = panels.bits, panels.stored.type.dtype
    if dtype.is_float:
        return [RowsForFloats(dtype)]
    products = quad_products(bits, r.target)
    if rounded_block(r):
        return [FloatRows() if products is None else IntegerRows(products, 1)]
    if products is None or (bits == 8 and not products.is_native):
        return [FloatRows()]
    return [IntegerRows(products, PARTS), FloatRows()]


@dataclass(frozen=True)
class _TileProduct:
    """A product by tiles of rows."""

    prepared: PreparedRows
    tile: RegisterTile
    rows: int

    @property
    def panels(self) -> StoredPanels:
        return self.prepared.panels

    @property
    def work(self) -> int:
        """Multiplications and additions."""
        return 2 * self.rows * self.panels.rows * self.panels.depth

    @property
    def makes_bytes(self) -> bool:
        """Whether panels become bytes in some runs."""
        return largest(self.rows) > FEW and self.panels.bits < 8


def product_algorithm(r: KernelRequest, form: RowForm, most: int, used: int = 1) -> Algorithm:
    """The product of so many rows at most; `used` is 0 in runs without it."""
    panels = StoredPanels.of(r.step, r.target)
    rows = smaller_extent(rows_of(r), most)
    height = min(TILE_ROWS, largest(rows))
    tile = RegisterTile(height, panels.vectors, panels.lanes)
    product = _TileProduct(PreparedRows(panels, form, rounded_block(r)), tile, rows)
    scratch = {}
    if goes_through_memory(r, panels.rows, tile):
        scratch["few"] = Storage(f32, tile.rows * tile.columns)
    if product.makes_bytes:
        scratch["bytes"] = Storage(u32, panels.chunks * QUADS * panels.width)
    return Algorithm(
        "few-rows",
        float(largest(product.work)),
        partial(_write, product=product, used=used),
        KernelNeeds(product.prepared.workspace(rows), scratch, panels.parts),
        {"tile": (tile.rows, tile.vectors, tile.lanes), "rows": form.name},
        is_exact=not form.is_relative,
    )


def _write(kernel: Kernel, product: _TileProduct, used: int) -> None:
    """Write a product: first the rows, of which each is a unit, then panels."""
    elements = largest(product.rows) * product.panels.depth
    with kernel.phase(product.rows * used, 8.0 * elements, "rows") as p:
        RowsPhase(p, product.prepared).write()
    with kernel.phase(product.panels.count * used, product.work, "few") as p:
        _ProductPhase(p, product).write()


class _RowsOfTile:
    """The rows of a tile: where they lie, and what is known of them."""

    def __init__(self, p: Phase, prepared: PreparedRows, first: Index, count: int) -> None:
        self.own, self.count = prepared, count
        needs = p.kernel.needs.workspace
        lines = {"factors": prepared.factors, "sums": prepared.spans, "totals": prepared.spans}
        self.rows = p.workspace("rows") + first * prepared.line
        self.known = {
            name: p.workspace(name) + first * line for name, line in lines.items() if name in needs
        }
        self.lines = lines

    def chunk(self, number: Index, offset: int) -> list[Pointer]:
        """Where each row has a chunk, from some number of it on."""
        start = self.rows + number * self.own.form.size
        return [start + (r * self.own.line + offset) for r in range(self.count)]

    def load(self, name: str, place: Index, lanes: int) -> list[Value]:
        """What is known of each row at a place, in all lanes."""
        start = self.known[name] + place
        return [start.load(r * self.lines[name]).splat(lanes) for r in range(self.count)]


class _ProductPhase:
    """The function that multiplies all rows by panels; a unit is a panel."""

    def __init__(self, p: Phase, product: _TileProduct) -> None:
        self.p, self.e, self.product = p, p.e, product
        self.prepared, self.panels, self.tile = product.prepared, product.panels, product.tile
        self.form = product.prepared.form
        self.pointers = self.panels.pointers(p)
        kept = goes_through_memory(p.kernel, self.panels.rows, self.tile)
        self.output = GemmOutput(p, self.panels.rows, self.tile, kept=kept, scratch="few")
        self.scales_last = not self.panels.block_size and self.panels.minimum is None

    def write(self) -> None:
        """Write all of it; of a ranged number of rows, code for few and for many."""
        rows = self.product.rows
        with self.p.units() as unit:
            at, column = self.pointers.panel(unit), unit * self.tile.columns
            if not is_ranged(rows):
                self._put_few(at, column) if rows <= FEW else self._put_many(at, column)
                return
            count = self.e.index(rows)
            with self.e.when(count <= FEW):
                self._put_few(at, column)
            if largest(rows) > FEW:
                with self.e.when(count > FEW):
                    self._put_many(at, column)

    def _put_few(self, at: PanelPointers, column: Value) -> None:
        """The results of so few rows that all are in a tile."""
        rows = self.product.rows

        def load(chunk: Value) -> Callable[[Index], list[Value]]:
            return at.chunk(chunk).quad

        def results(count: int) -> list[list[Value]]:
            return self._results(at, _RowsOfTile(self.p, self.prepared, 0, count), load)

        if not is_ranged(rows):
            self.output.put(0, column, results(rows))
            return
        height, most = self.e.index(rows), min(FEW, largest(rows))
        for count in each_height(self.e, height, most, max(1, smallest(rows))):
            self.output.begin(0, column, results(count))
        self.output.finish(0, column, height)

    def _put_many(self, at: PanelPointers, column: Value) -> None:
        """The results of many rows with a panel that becomes bytes, in a near cache."""
        rows, most = self.product.rows, self.tile.rows
        panel = self._bytes(at)

        def load(chunk: Value) -> Callable[[Index], list[Value]]:
            return lambda number: self._line(panel + chunk * (QUADS * self.panels.width), number)

        def results(first: Value, count: int) -> list[list[Value]]:
            rows = _RowsOfTile(self.p, self.prepared, first, count)
            return self._results(at, rows, load, in_loop=True)

        if not is_ranged(rows):
            for count, first in each_tile(self.e, rows, most):
                self.output.put(first, column, results(first, count))
            return
        tiles = -(-rows // most)
        least = least_height(max(smallest(rows), FEW + 1), largest(rows), most)
        with self.e.loop(tiles, name="tile") as number:
            first, height = ranged_tile(self.e, rows, tiles, number)
            for count in each_height(self.e, height, most, least):
                self.output.begin(first, column, results(first, count))
            self.output.finish(first, column, height)

    def _bytes(self, at: PanelPointers) -> Pointer:
        """Where a panel lies as quads of bytes."""
        if not self.product.makes_bytes:
            return at.words
        made, width = self.p.scratch("bytes"), self.panels.width
        with self.e.loop(self.panels.chunks, name="chunk") as chunk:
            words, to = at.chunk(chunk), made + chunk * (QUADS * width)
            for quad in range(QUADS):
                for v, word in enumerate(words.quad(quad)):
                    to.store(word, quad * width + v * self.panels.lanes)
        return made

    def _line(self, chunk: Pointer, number: Index) -> list[Value]:
        line, lanes = chunk + number * self.panels.width, self.panels.lanes
        return [line.load(v * lanes, lanes) for v in range(self.panels.vectors)]

    def _results(
        self,
        at: PanelPointers,
        rows: _RowsOfTile,
        load: Callable[[Value], Callable[[Index], list[Value]]],
        *,
        in_loop: bool = False,
    ) -> list[list[Value]]:
        """The results of a tile with a panel, of which `load` gives quads of a chunk."""
        lanes = self.tile.lanes
        zeros = [self.e.constant(f32, 0, lanes)] * (rows.count * self.tile.vectors)

        def body(chunk: Value, totals: list[Value]) -> list[Value]:
            quads = load(chunk)
            for span in range(self.panels.spans):
                here = self._quads(rows, chunk, span, quads, in_loop=in_loop)
                totals = self._span(at, rows, chunk, span, self.form.span(here), totals)
            return totals

        flat = self.e.fold(self.panels.chunks, zeros, body, name="chunk")
        results = by_rows(flat, self.tile.vectors)
        if self.form.is_relative:
            factors = rows.load("factors", 0, lanes)
            results = [[x * factors[row] for x in own] for row, own in enumerate(results)]
        if self.scales_last:
            scales = at.scales(0)
            results = [[x * scale for x, scale in zip(own, scales, strict=True)] for own in results]
        return results

    def _quads(
        self,
        rows: _RowsOfTile,
        chunk: Value,
        span: int,
        load: Callable[[Index], list[Value]],
        *,
        in_loop: bool,
    ) -> QuadSpan:
        """The quads of a span, and the rows that meet them."""
        numbers = self.panels.quads_of(span)
        return QuadSpan(
            self.e,
            lambda number: load(number + numbers.start),
            len(numbers),
            rows.chunk(chunk, span * self.panels.span),
            self.tile.vectors,
            self.tile.lanes,
            in_loop,
        )

    def _span(
        self,
        at: PanelPointers,
        rows: _RowsOfTile,
        chunk: Value,
        span: int,
        sums: list[Value],
        totals: list[Value],
    ) -> list[Value]:
        """Totals plus the products of a span of a chunk, with its zero points and scales."""
        vectors = self.tile.vectors
        block, place = self.panels.block_at(chunk, span), chunk * self.panels.spans + span
        found = by_rows(self._corrected(at, rows, block, place, sums), vectors)
        factors: list[Value | None] = [None] * rows.count
        if self.prepared.has_chunk_factors:
            factors = [*rows.load("factors", chunk, self.tile.lanes)]
        scales = [None] * vectors if self.scales_last else at.scales(block)
        added = [
            _scaled(x, factor, scale, total)
            for own, factor, before in zip(found, factors, by_rows(totals, vectors), strict=True)
            for x, scale, total in zip(own, scales, before, strict=True)
        ]
        return self._with_minimums(at, rows, block, place, added)

    def _corrected(
        self, at: PanelPointers, rows: _RowsOfTile, block: Index, place: Index, sums: list[Value]
    ) -> list[Value]:
        """Sums less the zero points times the sum of the row."""
        if not self.prepared.has_sums:
            return sums
        totals = rows.load("sums", place, self.tile.lanes)
        apart = enumerate(by_rows(sums, self.tile.vectors))
        if at.zero is None:
            return [x + totals[row] for row, own in apart for x in own]
        zeros = [convert(zero, f32) - float(self.form.shift) for zero in at.zeros(self.e, block)]
        return [
            fma(totals[row], zero, x)
            for row, own in apart
            for x, zero in zip(own, zeros, strict=True)
        ]

    def _with_minimums(
        self, at: PanelPointers, rows: _RowsOfTile, block: Index, place: Index, sums: list[Value]
    ) -> list[Value]:
        """Sums plus the minimums times the sum of the row."""
        minimums = at.minimums(block)
        if minimums is None:
            return sums
        totals = rows.load("totals", place, self.tile.lanes)
        return [
            fma(minimum, totals[row], x)
            for row, own in enumerate(by_rows(sums, self.tile.vectors))
            for x, minimum in zip(own, minimums, strict=True)
        ]


def _scaled(x: Value, factor: Value | None, scale: Value | None, total: Value) -> Value:
    """The total plus x times its factors, of those that there are."""
    if factor is None:
        return total + x if scale is None else fma(x, scale, total)
    return fma(x, factor if scale is None else factor * scale, total)
