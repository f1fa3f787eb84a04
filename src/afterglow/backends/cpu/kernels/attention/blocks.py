"""Attention of many queries: a block of them a unit, one in each lane of some vectors.

Scores are kept as [key][query], so that the maxima and sums of softmax are those of whole vectors,
and keys and values are read where they lie. Of many keys a part is seen at a time: what was summed
up before is scaled down when a larger score turns up.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from afterglow.backends.cpu.kernels.attention.block_plan import BlockPlan
from afterglow.backends.cpu.kernels.attention.block_scores import (
    BlockScores,
    pieces_of,
    quotient_up,
)
from afterglow.backends.cpu.kernels.attention.columns import lane_mask, panels_of, store_vectors
from afterglow.backends.cpu.kernels.attention.problem import Results, Scratch
from afterglow.backends.cpu.kernels.attention.weights import LOWEST, finite_peak, weight
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    fma,
    larger,
    smaller,
)
from afterglow.backends.cpu.micro.accumulate import accumulate, by_rows
from afterglow.backends.cpu.micro.kernel import Phase
from afterglow.types.extent import is_ranged


class Blocks(BlockScores):
    """Writes what is done for one block of queries."""

    def __init__(self, p: Phase, plan: BlockPlan, scratch: Scratch) -> None:
        super().__init__(p, plan, scratch)
        self.part, self.in_parts = plan.part, plan.in_parts
        self.panels = panels_of(plan.problem.value_width, plan.value_tile)
        self.row_stride = plan.pitch
        self.sink = p.sink()
        self.mixed, self.sums, self.factors = map(scratch, ("mixed", "sums", "factors"))

    def write(self, batch: Index, head: Index, first: Value) -> None:
        """The queries from `first` on of one head."""
        e, problem = self.e, self.problem
        k = problem.k.at(self.k, batch, head)
        v = problem.v.at(self.v, batch, head)
        self.begin(batch, head, first)
        store_vectors(self.peaks, [e.constant(self.dtype, LOWEST, self.lanes)] * self.vectors)
        store_vectors(self.sums, [e.constant(self.dtype, 0, self.lanes)] * self.vectors)
        if self.in_parts and not self.is_ranged:
            e.zero(self.mixed, self.queries * self.row_stride)
        seen = self.seen(first)
        with self._parts(seen) as start:
            count = self._count(start, seen)
            self._write_scores(k, start, count)
            self._write_weights(count)
            self._write_mixed(v + start * problem.v.row_stride, first, start, count)
        self._put(problem.results(self.sink, batch, head, first), self.valid(first))

    @contextmanager
    def _parts(self, seen: Index) -> Iterator[Value]:
        """Repeat what follows for each part of the keys that are seen, given its first key."""
        if not is_ranged(self.part):
            with self.e.loop(seen, step=self.part, name="part") as start:
                yield start
        elif not self.in_parts:
            yield self.e.index(0)
        else:
            parts = larger(quotient_up(self.e.index(seen), self.part), 1)
            with self.e.loop(parts, name="part") as number:
                yield number * self.part

    def _count(self, start: Value, seen: Index) -> Index:
        """How many keys there are in the part that begins at `start`, or as many as a tile has."""
        if not self.in_parts:
            return seen
        return self.tile_at_least(smaller(self.e.index(seen) - start, self.part))

    def _write_scores(self, k: Pointer, start: Value, count: Index) -> None:
        """Tiles of keys by queries, then what softmax needs of them."""
        problem, before = self.problem, self.load(self.peaks)
        peaks = self.write_scores(k, start, count, before)
        if self.in_parts:
            unit = problem.score_unit
            pairs = zip(before, peaks, strict=True)
            store_vectors(self.factors, [weight(old, finite_peak(new), unit) for old, new in pairs])
        store_vectors(self.peaks, peaks)

    def _write_weights(self, count: Index) -> None:
        """Scores become weights, whose sums go on."""
        peaks = [finite_peak(peak) for peak in self.load(self.peaks)]
        zeros = [self.e.constant(self.dtype, 0, self.lanes)] * self.vectors

        def add_key(key: Value, sums: list[Value]) -> list[Value]:
            line = self.scores + key * self.queries
            scores = zip(self.load(line), peaks, strict=True)
            weights = [weight(score, peak, self.problem.score_unit) for score, peak in scores]
            store_vectors(line, weights)
            return [total + made for total, made in zip(sums, weights, strict=True)]

        sums = self.e.fold(count, zeros, add_key, unroll=2, name="key")
        if self.in_parts:
            before = zip(self.load(self.sums), self.load(self.factors), sums, strict=True)
            sums = [fma(total, factor, made) for total, factor, made in before]
        store_vectors(self.sums, sums)

    def _write_mixed(self, v: Pointer, first: Value, start: Value, count: Index) -> None:
        """Weights times values, summed up for each query."""
        for panel in self.panels:
            rows = panel.tile.rows
            with self.e.loop(panel.count, name="panel") as number:
                column = number * panel.tile.columns + panel.start
                values = v + column * self.problem.v.column_stride
                with self.e.loop(pieces_of(self.valid(first), rows), name="row") as turn:
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
                        store_vectors(made + r * self.row_stride, vectors)

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
