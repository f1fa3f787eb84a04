"""The parts of the gradient of attention, for a block of queries.

Scores are computed anew, as [key][query]; they become weights, and what flows back to them becomes
what flows back to the scores. Sums for keys and values go on from block to block.
"""

from __future__ import annotations

from afterglow.backends.cpu.kernels.attention.block_scores import (
    BlockScores,
    pieces_of,
    quotient_up,
)
from afterglow.backends.cpu.kernels.attention.columns import (
    lane_mask,
    load_vectors,
    panels_of,
    store_vectors,
)
from afterglow.backends.cpu.kernels.attention.gradient_plan import GradientPlan
from afterglow.backends.cpu.kernels.attention.packing import pack_rows
from afterglow.backends.cpu.kernels.attention.problem import Heads
from afterglow.backends.cpu.kernels.attention.weights import LOWEST, finite_peak, weight
from afterglow.backends.cpu.llvm.emitter import Index, Pointer, Value, fma, larger, smaller
from afterglow.backends.cpu.micro.accumulate import accumulate
from afterglow.backends.cpu.micro.kernel import Phase
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Stats:
    """For each query the largest score, what its weights are multiplied by, and a mean.

    The mean is that of what flows back to the weights.
    """

    peaks: list[Value]
    shares: list[Value]
    means: list[Value]


class GradientBlocks(BlockScores):
    """Writes the parts of what is done for a block of queries."""

    def __init__(self, p: Phase, plan: GradientPlan) -> None:
        super().__init__(p, plan, p.scratch)
        self.plan, self.heads = plan, plan.grad
        self.grad = p.pointer(plan.grad.buffer)
        self.sinks = {name: p.sink(number) for number, name in enumerate(plan.widths)}
        self.sums = {name: p.scratch(name) for name in plan.widths}
        self.packed_grad, self.behind = p.scratch("packed_grad"), p.scratch("behind")

    def begin_block(self, batch: Index, head: Index, first: Value) -> None:
        """Prepare for the queries from `first` on of one head."""
        self.begin(batch, head, first)
        rows = (self.problem.queries, self.problem.value_width)
        grad = self.heads.at(self.grad, batch, head)
        pack_rows(self.e, self.packed_grad, grad, self.heads, first, *rows, self.tile)

    def write_weights(self, k: Pointer, v: Pointer, seen: Index) -> Stats:
        """Weights of the keys that are seen, and what flows back to the scores; the statistics."""
        lowest = [self.e.constant(self.dtype, LOWEST, self.lanes)] * self.vectors
        peaks = self.write_scores(k, self.e.index(0), seen, lowest)
        self.write_behind(v, seen)
        return self._write_flow(seen, [finite_peak(peak) for peak in peaks])

    def add_block(self, batch: Index, head: Index, first: Value, seen: Index) -> None:
        """Add what a block of queries gives to the sums of keys and values."""
        problem, valid = self.problem, self.valid(first)
        q = problem.q.at(self.q, batch, head) + first * problem.q.row_stride
        grad = self.heads.at(self.grad, batch, head) + first * self.heads.row_stride
        self._add("dv", self.scores, grad, self.heads, seen, valid)
        self._add("dk", self.behind, q, problem.q, seen, valid)

    def put_queries(self, k: Pointer, batch: Index, head: Index, first: Value, seen: Index) -> None:
        """What a block of queries gets."""
        valid = self.valid(first)
        self._write_dq(k, seen, valid)
        self.put("dq", (batch, head, first), 0, valid, self.problem.scale)

    def put_keys(self, batch: Index, shared: Index, first: Value, start: Index, stop: int) -> None:
        """What keys and values get, as those from `first` on: sums from `start` to `stop`."""
        for name, factor in (("dk", self.problem.scale), ("dv", 1.0)):
            self.put(name, (batch, shared, first), start, stop, factor)

    def clear(self, keys: int) -> None:
        """Begin new sums for some keys."""
        for name in ("dk", "dv"):
            self.e.zero(self.sums[name], keys * self.plan.pitch_of(name))

    def seen(self, first: Value) -> Index:
        """How many keys any query of the block sees, up to whole tiles or to all of them."""
        problem, rows = self.problem, self.tile.rows
        if not problem.causal:
            return problem.keys
        last = first + (self.queries + problem.keys - problem.queries)
        return smaller(quotient_up(last, rows) * rows, problem.keys)

    def write_behind(self, v: Pointer, seen: Index) -> None:
        """What flows back to the weights: values times the gradient of the result."""
        heads, rows = self.problem.v, self.tile.rows
        with self.e.loop(pieces_of(seen, rows), name="tile") as number:
            place = self.place_of(number, seen)
            start = v + place * heads.row_stride
            products = accumulate(
                self.e,
                self.tile,
                [start + row * heads.row_stride for row in range(rows)],
                self.packed_grad,
                self.problem.value_width,
                self.dtype,
                row_step=heads.column_stride,
            )
            line = self.behind + place * self.queries
            for row, vectors in enumerate(products):
                store_vectors(line + row * self.queries, vectors)

    def _write_flow(self, seen: Index, peaks: list[Value]) -> Stats:
        """Scores become weights, and what flows back to these what flows back to the scores."""
        zeros, unit = [peak.like(0) for peak in peaks], self.problem.score_unit

        def add_key(key: Value, sums: list[Value]) -> list[Value]:
            line = self.scores + key * self.queries
            pairs = zip(self.load(line), peaks, strict=True)
            weights = [weight(score, peak, unit) for score, peak in pairs]
            store_vectors(line, weights)
            behind = self.load(self.behind + key * self.queries)
            totals = [a + b for a, b in zip(sums[: self.vectors], weights, strict=True)]
            flows = zip(weights, behind, sums[self.vectors :], strict=True)
            return [*totals, *(fma(a, b, c) for a, b, c in flows)]

        sums = self.e.fold(seen, [*zeros, *zeros], add_key, unroll=2, name="key")
        shares = [1.0 / larger(1.0, total) for total in sums[: self.vectors]]
        means = [a * b for a, b in zip(sums[self.vectors :], shares, strict=True)]
        with self.e.loop(seen, name="key") as key:
            line = self.scores + key * self.queries
            weights = [a * b for a, b in zip(self.load(line), shares, strict=True)]
            self.store_flow(key, weights, means)
        return Stats(peaks, shares, means)

    def store_flow(self, key: Value, weights: list[Value], means: list[Value]) -> None:
        """The weights of a key, and what flows back to its scores."""
        line, flow = (x + key * self.queries for x in (self.scores, self.behind))
        behind = zip(weights, self.load(flow), means, strict=True)
        store_vectors(line, weights)
        store_vectors(flow, [w * (b - mean) for w, b, mean in behind])

    def _add(
        self, name: str, factors: Pointer, x: Pointer, heads: Heads, seen: Index, valid: Index
    ) -> None:
        """Add the products of [key][query] with rows of queries to the sums of a result."""
        rows, keys = self.tile.rows, self.plan.summed_keys
        rest = keys % rows
        whole = seen if rest == 0 else smaller(self.e.index(seen), keys - rest)
        for height, first, stop in ((rows, 0, whole), (rest, keys - rest, seen)):
            if height == 0:
                continue
            with self.e.loop(stop, start=first, step=height, name="tile") as place:
                rows_of_tile = [factors + (place + row) * self.queries for row in range(height)]
                to = self.sums[name] + place * self.plan.pitch_of(name)
                self._add_tile(name, rows_of_tile, to, x, heads, valid)

    def _add_tile(
        self, name: str, rows: list[Pointer], to: Pointer, x: Pointer, heads: Heads, valid: Index
    ) -> None:
        """The same, for neighbouring keys."""
        pitch, width = self.plan.pitch_of(name), self.plan.widths[name]
        for panel in panels_of(width, self.plan.column_tile.with_rows(len(rows))):
            with self.e.loop(panel.count, name="panel") as number:
                column = number * panel.tile.columns + panel.start
                lines = [to + row * pitch + column for row in range(len(rows))]
                made = accumulate(
                    self.e,
                    panel.tile,
                    rows,
                    x + column * heads.column_stride,
                    valid,
                    self.dtype,
                    panel_step=heads.row_stride,
                    load=panel.load(self.e, heads.column_stride),
                    initial=[load_vectors(line, panel.tile) for line in lines],
                )
                for line, vectors in zip(lines, made, strict=True):
                    store_vectors(line, vectors)

    def _write_dq(self, k: Pointer, seen: Index, valid: Index) -> None:
        """What flows back to the scores, times the keys."""
        heads, to, pitch = self.problem.k, self.sums["dq"], self.plan.pitch_of("dq")
        for panel in panels_of(self.problem.width, self.plan.value_tile):
            rows = panel.tile.rows
            with self.e.loop(panel.count, name="panel") as number:
                column = number * panel.tile.columns + panel.start
                with self.e.loop(pieces_of(valid, rows), name="row") as turn:
                    made = accumulate(
                        self.e,
                        panel.tile,
                        [self.behind + turn * rows + row for row in range(rows)],
                        k + column * heads.column_stride,
                        seen,
                        self.dtype,
                        row_step=self.queries,
                        panel_step=heads.row_stride,
                        load=panel.load(self.e, heads.column_stride),
                    )
                    for row, vectors in enumerate(made):
                        store_vectors(to + (turn * rows + row) * pitch + column, vectors)

    def put(
        self,
        name: str,
        at: tuple[Index, Index, Value],
        start: Index,
        stop: Index,
        factor: float,
    ) -> None:
        """Rows of sums times a factor, as rows of a result: `at` is the place of row 0."""
        batch, head, first = at
        width, lanes = self.plan.widths[name], self.lanes
        whole = width - width % lanes
        with self.e.loop(stop, start=start, name="row") as row:
            out = self.sinks[name].row_at((batch, head, first + row))
            line = self.sums[name] + row * self.plan.pitch_of(name)
            with self.e.loop(whole, step=lanes, name="column") as column:
                out.put(column, line.load(column, lanes) * factor)
            if whole < width:
                mask = lane_mask(self.e, width - whole, lanes)
                out.put(whole, line.load(whole, lanes) * factor, mask)
