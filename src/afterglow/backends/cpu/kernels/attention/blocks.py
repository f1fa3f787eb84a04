"""Attention of many queries: a block of them a unit, one in each lane of some vectors.

Scores are kept as [key][query], so that the maxima and sums of softmax are those of whole vectors,
and keys and values are read where they lie. Of many keys a part is seen at a time: what was summed
up before is scaled down when a larger score turns up.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from afterglow.backends.cpu.kernels.attention.block_plan import LAST_KEYS, BlockPlan
from afterglow.backends.cpu.kernels.attention.columns import lane_mask, panels_of
from afterglow.backends.cpu.kernels.attention.masking import BlockMask
from afterglow.backends.cpu.kernels.attention.packing import pack_rows
from afterglow.backends.cpu.kernels.attention.problem import Results, Scratch
from afterglow.backends.cpu.kernels.attention.weights import LOWEST, finite_peak, weight
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    fma,
    larger,
    quotient,
    remainder,
    smaller,
)
from afterglow.backends.cpu.micro.accumulate import accumulate, by_rows
from afterglow.backends.cpu.micro.kernel import Phase
from afterglow.types.extent import is_ranged


def _pieces(count: Index, size: int) -> Index:
    """The number of pieces of a size that cover a number of elements."""
    return -(-count // size) if isinstance(count, int) else _pieces_of(count, size)


def _pieces_of(count: Value, size: int) -> Value:
    return quotient(count + (size - 1), size)


class Blocks:
    """Writes what is done for one block of queries."""

    def __init__(self, p: Phase, plan: BlockPlan, scratch: Scratch) -> None:
        problem = plan.problem
        self.e, self.problem, self.queries = p.e, problem, plan.queries
        self.dtype, self.lanes, self.tile = plan.dtype, plan.lanes, plan.key_tile
        self.vectors = self.tile.vectors
        self.part, self.in_parts = plan.part, plan.in_parts
        self.panels = panels_of(problem.value_width, plan.value_tile)
        self.row_stride = plan.pitch
        self.is_ranged = is_ranged(problem.keys)
        self.sink = p.sink()
        self.mask = BlockMask(p, plan, scratch)
        self.q, self.k, self.v = (p.pointer(x.buffer) for x in (problem.q, problem.k, problem.v))
        self.packed, self.scores, self.mixed = map(scratch, ("packed", "scores", "mixed"))
        self.peaks, self.sums, self.factors = map(scratch, ("peaks", "sums", "factors"))

    def write(self, batch: Index, head: Index, first: Value) -> None:
        """The queries from `first` on of one head."""
        e, problem = self.e, self.problem
        q = problem.q.at(self.q, batch, head)
        k = problem.k.at(self.k, batch, head)
        v = problem.v.at(self.v, batch, head)
        pack_rows(e, self.packed, q, problem.q, first, problem.queries, problem.width, self.tile)
        self.mask.begin(batch, head, first)
        self._store(self.peaks, [e.constant(self.dtype, LOWEST, self.lanes)] * self.vectors)
        self._store(self.sums, [e.constant(self.dtype, 0, self.lanes)] * self.vectors)
        if self.in_parts and not self.is_ranged:
            e.zero(self.mixed, self.queries * self.row_stride)
        seen = self._seen(first)
        with self._parts(seen) as start:
            count = self._count(start, seen)
            self._write_scores(k, start, count)
            self._write_weights(count)
            self._write_mixed(v + start * problem.v.row_stride, first, start, count)
        self._put(problem.results(self.sink, batch, head, first), self._valid(first))

    @contextmanager
    def _parts(self, seen: Index) -> Iterator[Value]:
        """Repeat what follows for each part of the keys that are seen, given its first key."""
        if not is_ranged(self.part):
            with self.e.loop(seen, step=self.part, name="part") as start:
                yield start
        elif not self.in_parts:
            yield self.e.index(0)
        else:
            parts = larger(_pieces_of(self.e.index(seen), self.part), 1)
            with self.e.loop(parts, name="part") as number:
                yield number * self.part

    def _seen(self, first: Value) -> Index:
        """How many keys any query of the block sees; of a known number at least a tile's."""
        keys = self.problem.keys
        if not self.problem.causal:
            return self.e.index(keys) if self.is_ranged else keys
        last = first + (self.queries + keys - self.problem.queries)
        return self._tile_at_least(smaller(last, keys))

    def _count(self, start: Value, seen: Index) -> Index:
        """How many keys there are in the part that begins at `start`, or as many as a tile has."""
        if not self.in_parts:
            return seen
        return self._tile_at_least(smaller(self.e.index(seen) - start, self.part))

    def _tile_at_least(self, count: Value) -> Value:
        return count if self.is_ranged else larger(count, self.tile.rows)

    def _valid(self, first: Value) -> Index:
        """How many queries of the block exist."""
        if self.problem.queries % self.queries == 0:
            return self.queries
        return smaller(self.problem.queries - first, self.queries)

    def _write_scores(self, k: Pointer, start: Value, count: Index) -> None:
        """Tiles of keys by queries, then what softmax needs of them."""
        problem, before = self.problem, self._load(self.peaks)
        peaks = (self._write_any_tiles if self.is_ranged else self._write_tiles)(
            k, start, count, before
        )
        if self.in_parts:
            unit = problem.score_unit
            pairs = zip(before, peaks, strict=True)
            self._store(self.factors, [weight(old, finite_peak(new), unit) for old, new in pairs])
        self._store(self.peaks, peaks)

    def _write_tiles(
        self, k: Pointer, start: Value, count: Index, peaks: list[Value]
    ) -> list[Value]:
        """Tiles of one height; the last one may do keys again that the one before has done."""
        rows = self.tile.rows

        def write_tile(number: Value, peaks: list[Value]) -> list[Value]:
            place = smaller(number * rows, self.e.index(count) - rows)
            return self._write_tile(k, start, place, peaks)

        return self.e.fold(_pieces(count, rows), peaks, write_tile, name="tile")

    def _write_any_tiles(
        self, k: Pointer, start: Value, count: Index, peaks: list[Value]
    ) -> list[Value]:
        """High tiles as far as they go, then low ones, in which the last key may be repeated."""
        rows, keys = self.tile.rows, self.e.index(count)
        whole = keys - remainder(keys, rows)
        peaks = self.e.fold(
            whole,
            peaks,
            lambda place, peaks: self._write_tile(k, start, place, peaks),
            step=rows,
            name="tile",
        )

        def write_last(place: Value, peaks: list[Value]) -> list[Value]:
            last = [start + smaller(place + row, keys - 1) for row in range(LAST_KEYS)]
            return self._write_keys(k, [(key, 0) for key in last], place, peaks)

        return self.e.fold(keys, peaks, write_last, start=whole, step=LAST_KEYS, name="tile")

    def _write_tile(
        self, k: Pointer, start: Value, place: Value, peaks: list[Value]
    ) -> list[Value]:
        """The scores of neighbouring keys."""
        key = start + place
        keys = [(key, row) for row in range(self.tile.rows)]
        return self._write_keys(k, keys, place, peaks)

    def _write_keys(
        self, k: Pointer, keys: list[tuple[Value, int]], place: Value, peaks: list[Value]
    ) -> list[Value]:
        """The scores of keys, each a known number after another, as those from `place` on."""
        stride = self.problem.k.row_stride
        starts = {key: k + key * stride for key in dict.fromkeys(key for key, _ in keys)}
        products = accumulate(
            self.e,
            self.tile.with_rows(len(keys)),
            [starts[key] + row * stride for key, row in keys],
            self.packed,
            self.problem.width,
            self.dtype,
            row_step=self.problem.k.column_stride,
        )
        line = self.scores + place * self.queries
        for number, ((key, row), vectors) in enumerate(zip(keys, products, strict=True)):
            made = self.mask.scores(key, row, vectors)
            self._store(line + number * self.queries, made)
            peaks = [larger(a, b) for a, b in zip(made, peaks, strict=True)]
        return peaks

    def _write_weights(self, count: Index) -> None:
        """Scores become weights, whose sums go on."""
        peaks = [finite_peak(peak) for peak in self._load(self.peaks)]
        zeros = [self.e.constant(self.dtype, 0, self.lanes)] * self.vectors

        def add_key(key: Value, sums: list[Value]) -> list[Value]:
            line = self.scores + key * self.queries
            scores = zip(self._load(line), peaks, strict=True)
            weights = [weight(score, peak, self.problem.score_unit) for score, peak in scores]
            self._store(line, weights)
            return [total + made for total, made in zip(sums, weights, strict=True)]

        sums = self.e.fold(count, zeros, add_key, unroll=2, name="key")
        if self.in_parts:
            before = zip(self._load(self.sums), self._load(self.factors), sums, strict=True)
            sums = [fma(total, factor, made) for total, factor, made in before]
        self._store(self.sums, sums)

    def _write_mixed(self, v: Pointer, first: Value, start: Value, count: Index) -> None:
        """Weights times values, summed up for each query."""
        for panel in self.panels:
            rows = panel.tile.rows
            with self.e.loop(panel.count, name="panel") as number:
                column = number * panel.tile.columns + panel.start
                values = v + column * self.problem.v.column_stride
                with self.e.loop(_pieces(self._valid(first), rows), name="row") as turn:
                    row = turn * rows
                    made = self.mixed + row * self.row_stride + column
                    sums = accumulate(
                        self.e,
                        panel.tile,
                        [self.scores + row + r for r in range(rows)],
                        values,
                        count,
                        self.dtype,
                        row_step=self.queries,
                        panel_step=self.problem.v.row_stride,
                        load=panel.load(self.e, self.problem.v.column_stride),
                    )
                    if self.in_parts:
                        sums = self._joined(made, row, start, sums)
                    for r, vectors in enumerate(sums):
                        for number_, vector in enumerate(vectors):
                            made.store(vector, r * self.row_stride + number_ * self.lanes)

    def _joined(
        self, made: Pointer, row: Value, start: Value, sums: list[list[Value]]
    ) -> list[list[Value]]:
        """Sums of the part that begins at `start`, and of those before it."""
        if not self.is_ranged:
            return self._added(made, row, sums)
        flat = [vector for vectors in sums for vector in vectors]
        joined = self.e.branch(
            start > 0,
            lambda: [v for vectors in self._added(made, row, sums) for v in vectors],
            lambda: flat,
        )
        return by_rows(joined, len(sums[0]))

    def _added(self, made: Pointer, row: Value, sums: list[list[Value]]) -> list[list[Value]]:
        """Sums of this part, and what earlier parts have summed up, scaled to the peak of now."""
        found = []
        for r, vectors in enumerate(sums):
            factor = self.factors.broadcast(row + r, self.lanes)
            line = made + r * self.row_stride
            loads = [line.load(v * self.lanes, self.lanes) for v in range(len(vectors))]
            pairs = zip(loads, vectors, strict=True)
            found.append([fma(before, factor, total) for before, total in pairs])
        return found

    def _put(self, results: Results, valid: Index) -> None:
        """Divide by the sums of the weights."""
        width = self.problem.value_width
        with self.e.loop(valid, name="row") as row:
            out, line = results(row), self.mixed + row * self.row_stride
            inverse = (1.0 / larger(1.0, self.sums.load(row))).splat(self.lanes)
            whole = width - width % self.lanes
            with self.e.loop(whole, step=self.lanes, name="column") as column:
                out.put(column, line.load(column, self.lanes) * inverse)
            if whole < width:
                mask = lane_mask(self.e, width - whole, self.lanes)
                out.put(whole, line.load(whole, self.lanes) * inverse, mask)

    def _load(self, line: Pointer) -> list[Value]:
        return [line.load(v * self.lanes, self.lanes) for v in range(self.vectors)]

    def _store(self, line: Pointer, vectors: list[Value]) -> None:
        for v, vector in enumerate(vectors):
            line.store(vector, v * self.lanes)
