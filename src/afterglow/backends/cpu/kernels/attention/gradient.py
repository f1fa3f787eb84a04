"""The gradient of attention: a head of keys a unit, whose queries come in blocks.

Of a block, scores are computed anew, as [key][query]; they become weights, and what flows back to
them becomes what flows back to the scores. Sums for keys and values go on from block to block.
"""

from __future__ import annotations

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.attention.block_plan import VECTORS
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
from afterglow.backends.cpu.kernels.attention.problem import Heads, lanes_of, problem_of
from afterglow.backends.cpu.kernels.attention.weights import LOWEST, finite_peak, weight
from afterglow.backends.cpu.llvm.emitter import Index, Pointer, Value, fma, larger, smaller
from afterglow.backends.cpu.micro.accumulate import accumulate
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, Phase
from afterglow.backends.cpu.micro.rows import split
from afterglow.backends.cpu.target import Target
from afterglow.instr import OpInstr


def gradient_algorithm(step: OpInstr, target: Target) -> Algorithm:
    """The algorithm for a step."""
    problem = problem_of(step)
    grad = step.required[3]
    lanes = lanes_of(problem, target)
    queries = min(VECTORS, max(1, -(-problem.queries // lanes))) * lanes
    plan = GradientPlan(problem, target, queries, Heads(grad, grad.strides))
    return Algorithm(
        "by-head",
        plan.work,
        lambda k: _write(k, plan),
        KernelNeeds(scratch=plan.scratch),
        {"queries": queries},
    )


def _write(kernel: Kernel, plan: GradientPlan) -> None:
    """Write a kernel whose units are heads of keys."""
    problem = plan.problem
    heads = problem.heads // problem.k.sharing
    with kernel.phase(problem.batch * heads, plan.work) as p:
        blocks = GradientBlocks(p, plan)
        with p.units() as unit:
            blocks.write(*split(unit, heads))


class GradientBlocks(BlockScores):
    """Writes what is done for one head of keys."""

    def __init__(self, p: Phase, plan: GradientPlan) -> None:
        super().__init__(p, plan, p.scratch)
        self.plan, self.heads = plan, plan.grad
        self.grad = p.pointer(plan.grad.buffer)
        self.sinks = {name: p.sink(number) for number, name in enumerate(plan.widths)}
        self.sums = {name: p.scratch(name) for name in plan.widths}
        self.packed_grad, self.behind = p.scratch("packed_grad"), p.scratch("behind")

    def write(self, batch: Index, shared: Index) -> None:
        """All gradients of one head of keys, and of the queries that share it."""
        problem, sharing = self.problem, self.problem.k.sharing
        for name in ("dk", "dv"):
            self.e.zero(self.sums[name], problem.keys * self.plan.pitch_of(name))
        with self.e.loop(sharing, name="head") as number:
            head = shared * sharing + number
            with self.e.loop(self.plan.blocks, name="block") as block:
                self._write_block(batch, head, block * self.queries)
        for name, factor in (("dk", problem.scale), ("dv", 1.0)):
            self._put(name, (batch, shared, self.e.index(0)), problem.keys, factor)

    def _write_block(self, batch: Index, head: Value, first: Value) -> None:
        """The queries from `first` on of one head."""
        problem, grad = self.problem, self.heads.at(self.grad, batch, head)
        q = problem.q.at(self.q, batch, head) + first * problem.q.row_stride
        k, v = problem.k.at(self.k, batch, head), problem.v.at(self.v, batch, head)
        seen, valid = self.seen(first), self.valid(first)
        self.begin(batch, head, first)
        rows = (problem.queries, problem.value_width)
        pack_rows(self.e, self.packed_grad, grad, self.heads, first, *rows, self.tile)
        lowest = [self.e.constant(self.dtype, LOWEST, self.lanes)] * self.vectors
        peaks = self.write_scores(k, self.e.index(0), seen, lowest)
        self._write_behind(v, seen)
        self._write_flow(seen, [finite_peak(peak) for peak in peaks])
        self._add("dv", self.scores, grad + first * self.heads.row_stride, self.heads, seen, valid)
        self._add("dk", self.behind, q, problem.q, seen, valid)
        self._write_dq(k, seen, valid)
        self._put("dq", (batch, head, first), valid, problem.scale)

    def seen(self, first: Value) -> Index:
        """How many keys any query of the block sees, up to whole tiles or to all of them."""
        problem, rows = self.problem, self.tile.rows
        if not problem.causal:
            return problem.keys
        last = first + (self.queries + problem.keys - problem.queries)
        return smaller(quotient_up(last, rows) * rows, problem.keys)

    def _write_behind(self, v: Pointer, seen: Index) -> None:
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

    def _write_flow(self, seen: Index, peaks: list[Value]) -> None:
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
            line, flow = (x + key * self.queries for x in (self.scores, self.behind))
            weights = [a * b for a, b in zip(self.load(line), shares, strict=True)]
            behind = zip(weights, self.load(flow), means, strict=True)
            store_vectors(line, weights)
            store_vectors(flow, [w * (b - mean) for w, b, mean in behind])

    def _add(
        self, name: str, factors: Pointer, x: Pointer, heads: Heads, seen: Index, valid: Index
    ) -> None:
        """Add the products of [key][query] with rows of queries to the sums of a result."""
        rows, keys = self.tile.rows, self.problem.keys
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

    def _put(self, name: str, at: tuple[Index, Index, Value], rows: Index, factor: float) -> None:
        """Sums times a factor, as rows of a result: `at` is the place of the first."""
        batch, head, first = at
        width, lanes = self.plan.widths[name], self.lanes
        whole = width - width % lanes
        with self.e.loop(rows, name="row") as row:
            out = self.sinks[name].row_at((batch, head, first + row))
            line = self.sums[name] + row * self.plan.pitch_of(name)
            with self.e.loop(whole, step=lanes, name="column") as column:
                out.put(column, line.load(column, lanes) * factor)
            if whole < width:
                mask = lane_mask(self.e, width - whole, lanes)
                out.put(whole, line.load(whole, lanes) * factor, mask)
