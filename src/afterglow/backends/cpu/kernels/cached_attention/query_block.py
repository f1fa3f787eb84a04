"""Many queries of one sequence: the lanes of vectors are queries, which share what is read.

A row is a query: a token with one of the heads that share a head of the caches. Keys and values
are factors of products whose other factor lies with rows side by side, so that nothing is reduced
across lanes. Rows go over positions block by block, and sums are scaled when a larger score comes.
"""

from __future__ import annotations

from afterglow.backends.cpu.kernels.attention.columns import load_vectors, store_vectors
from afterglow.backends.cpu.kernels.attention.weights import LOWEST, finite_peak, power_down
from afterglow.backends.cpu.kernels.cached_attention.problem import (
    BLOCK,
    CacheProblem,
    CacheRows,
    HeadRows,
)
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    convert,
    larger,
    quotient,
    remainder,
    select,
    smaller,
)
from afterglow.backends.cpu.micro.accumulate import accumulate
from afterglow.backends.cpu.micro.kernel import Phase, Storage
from afterglow.backends.cpu.micro.lanes import fitting_lanes, full_lanes
from afterglow.backends.cpu.micro.rows import Row
from afterglow.backends.cpu.micro.tile import RegisterTile
from afterglow.backends.cpu.target import Target
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import i32

VECTORS = 2
"""Vectors of rows."""
STAGED_LANES = 16
"""Elements at most that are converted at a time."""


@dataclass(frozen=True)
class RowPlan:
    """How many rows there are at a time: some tokens, each with some of the heads that share."""

    problem: CacheProblem
    tile: RegisterTile
    """What is multiplied at a time: positions, or columns of values, with vectors of rows."""

    @staticmethod
    def of(problem: CacheProblem, target: Target) -> RowPlan:
        """As many as registers allow."""
        keys = 8 if target.vector_registers > 16 else 6
        return RowPlan(problem, RegisterTile(keys, VECTORS, full_lanes(target, problem.dtype)))

    @property
    def rows(self) -> int:
        """Rows that vectors hold."""
        return self.tile.columns

    @property
    def heads(self) -> int:
        """Heads of a token among the rows: a divisor of those that share."""
        group = self.problem.group
        return max(n for n in range(1, group + 1) if group % n == 0 and n <= self.rows)

    @property
    def tokens(self) -> int:
        """Tokens at a time."""
        return self.rows // self.heads

    @property
    def passes(self) -> int:
        """How often a head of the caches is gone through for the same tokens."""
        return self.problem.group // self.heads

    def scratch(self) -> dict[str, Storage]:
        """The memory of a thread."""
        problem, rows = self.problem, self.rows
        counts = {
            "queries": problem.width * rows,
            "weights": BLOCK * rows,
            "mixed": problem.value_width * rows,
            "sums": 2 * rows,
            "staged": BLOCK * max(problem.width, problem.value_width),
        }
        floats = {name: Storage(problem.dtype, count) for name, count in counts.items()}
        return floats | {"last": Storage(i32, rows)}


@dataclass(frozen=True)
class TokenRun:
    """Tokens one after the other, of one sequence and at neighbouring positions."""

    first: Value
    count: Value
    position: Value
    sequence: Value


class QueryBlock:
    """Writes what is done for a run of tokens and some heads that share one of the caches."""

    def __init__(self, p: Phase, plan: RowPlan) -> None:
        self.e, self.plan, self.problem = p.e, plan, plan.problem
        self.dtype, self.q = plan.problem.dtype, p.step.required[0]
        self.q_pointer, self.sink = p.pointer(self.q), p.sink()
        self.keys, self.values = (CacheRows(p, plan.problem, n) for n in ("keys", "values"))
        self.queries, self.weights, self.mixed, self.sums, self.staged, self.last = (
            p.scratch(n) for n in ("queries", "weights", "mixed", "sums", "staged", "last")
        )

    def write(self, run: TokenRun, shared: Index, number: Index) -> None:
        """All positions that the tokens see, for a pass over the heads that share one."""
        e, problem = self.e, self.problem
        head = shared * problem.group + number * self.plan.heads
        self._load_queries(run, head)
        zero, lowest = (e.constant(self.dtype, x, self.plan.tile.lanes) for x in (0, LOWEST))
        tile = self.plan.tile
        store_vectors(self.sums, [lowest] * tile.vectors + [zero] * tile.vectors)
        with e.loop(problem.value_width) as column:
            store_vectors(self.mixed + column * self.plan.rows, [zero] * tile.vectors)
        keys, values = (rows.head(run.sequence, shared) for rows in (self.keys, self.values))
        stop = run.position + run.count
        begin = problem.first(run.position)
        with e.loop(stop, start=begin, step=BLOCK, name="block") as start:
            count = smaller(stop - start, BLOCK)
            peaks = self._write_scores(keys, start, count)
            factors = self._write_weights(peaks, count)
            self._mix(values, start, count, factors)
        self._put(run, head)

    def _load_queries(self, run: TokenRun, head: Index) -> None:
        """Queries side by side, and the last position that each row sees."""
        e, plan, strides = self.e, self.plan, self.q.strides
        with e.loop(plan.rows, name="row") as row:
            at = smaller(self._token(row), run.count - 1)
            self.last.store(convert(run.position + at, i32), row)
            of = head + self._head(row)
            source = Row(
                self.q_pointer + (run.first + at) * strides[0] + of * strides[1], strides[2]
            )
            with e.loop(self.problem.width, name="column") as column:
                x = convert(source.load(column, 1), self.dtype) * self.problem.factor
                self.queries.store(x, column * plan.rows + row)

    def _token(self, row: Value) -> Value:
        """Which of the tokens a row belongs to; rows left over belong to none."""
        return quotient(row, self.plan.heads) if self.plan.heads > 1 else row

    def _head(self, row: Value) -> Index:
        """Which of the heads a row belongs to."""
        return remainder(row, self.plan.heads) if self.plan.heads > 1 else 0

    def _stage(self, rows: HeadRows, width: int, start: Value, count: Value) -> Pointer:
        """Where rows lie in the type that is computed with, one after the other unless plain."""
        if rows.rows.is_plain:
            return rows.line(start)
        lanes = fitting_lanes(STAGED_LANES, width & -width)
        with self.e.loop(count, name="key") as key:
            line, scale = rows.line(start + key), rows.scales(start + key)
            with self.e.loop(width, step=lanes) as column:
                x = rows.load(line, column, lanes)
                x = x if scale is None else x * scale
                self.staged.store(x, key * width + column)
        return self.staged

    def _write_scores(self, keys: HeadRows, start: Value, count: Value) -> list[Value]:
        """The scores of a block for all rows; the largest so far."""
        e, width, tile = self.e, self.problem.width, self.plan.tile
        lines = self._stage(keys, width, start, count)
        stride = self.keys.stride if keys.rows.is_plain else width
        last = [self.last.load(v * tile.lanes, tile.lanes) for v in range(tile.vectors)]

        def some(first: Value, peaks: list[Value], number: int) -> list[Value]:
            beginning = lines + first * stride
            rows = [beginning + at * stride for at in range(number)]
            products = accumulate(e, tile.with_rows(number), rows, self.queries, width, self.dtype)
            for at, vectors in enumerate(products):
                key = convert(start + first + at, i32)
                scores = [self._seen(x, key, seen) for x, seen in zip(vectors, last, strict=True)]
                store_vectors(self.weights + (first + at) * self.plan.rows, scores)
                peaks = [larger(x, peak) for x, peak in zip(scores, peaks, strict=True)]
            return peaks

        whole = count - remainder(count, tile.rows)
        peaks = load_vectors(self.sums, tile)
        peaks = e.fold(whole, peaks, lambda k, x: some(k, x, tile.rows), step=tile.rows, name="key")
        return e.fold(count, peaks, lambda k, x: some(k, x, 1), start=whole, name="key")

    def _seen(self, product: Value, key: Value, last: Value) -> Value:
        """The score of a position, or -infinity where a row does not see it."""
        score = self.problem.capped(product)
        seen = key.splat(last.lanes) <= last
        if self.problem.op.window:
            seen = seen & (key.splat(last.lanes) > last - self.problem.op.window)
        return select(seen, score, LOWEST)

    def _write_weights(self, peaks: list[Value], count: Value) -> list[Value]:
        """Scores become weights; what earlier sums are to be multiplied by."""
        e, tile = self.e, self.plan.tile
        before = load_vectors(self.sums, tile)
        most = [finite_peak(peak) for peak in peaks]
        factors = [power_down(old - new) for old, new in zip(before, most, strict=True)]
        totals = load_vectors(self.sums + self.plan.rows, tile)
        totals = [total * factor for total, factor in zip(totals, factors, strict=True)]

        def write_key(key: Value, totals: list[Value]) -> list[Value]:
            line = self.weights + key * self.plan.rows
            scores = load_vectors(line, tile)
            weights = [power_down(x - peak) for x, peak in zip(scores, most, strict=True)]
            store_vectors(line, weights)
            return [total + x for total, x in zip(totals, weights, strict=True)]

        totals = e.fold(count, totals, write_key, name="key")
        store_vectors(self.sums, [*peaks, *totals])
        return factors

    def _mix(self, values: HeadRows, start: Value, count: Value, factors: list[Value]) -> None:
        """Add the weighted values of a block."""
        e, width, tile = self.e, self.problem.value_width, self.plan.tile
        lines = self._stage(values, width, start, count)
        stride = self.values.stride if values.rows.is_plain else width

        def some(column: Index, number: int) -> None:
            place = self.mixed + column * self.plan.rows
            places = [place + at * self.plan.rows for at in range(number)]
            initial = [
                [old * f for old, f in zip(load_vectors(at, tile), factors, strict=True)]
                for at in places
            ]
            beginning = lines + column
            made = accumulate(
                e,
                tile.with_rows(number),
                [beginning + at for at in range(number)],
                self.weights,
                count,
                self.dtype,
                row_step=stride,
                initial=initial,
            )
            for at, vectors in zip(places, made, strict=True):
                store_vectors(at, vectors)

        whole = width - width % tile.rows
        with e.loop(whole, step=tile.rows, name="column") as column:
            some(column, tile.rows)
        if whole < width:
            some(whole, width - whole)

    def _put(self, run: TokenRun, head: Index) -> None:
        """Write the results of all rows that stand for tokens."""
        e, plan, width = self.e, self.plan, self.problem.value_width
        lanes = fitting_lanes(plan.tile.lanes, width & -width)
        with e.loop(run.count * plan.heads, name="row") as row:
            inverse = 1.0 / self.sums.load(row + plan.rows)
            token = run.first + self._token(row)
            out = self.sink.row_at((token, head + self._head(row)))
            source = Row(self.mixed + row, plan.rows)
            with e.loop(width, step=lanes) as column:
                out.put(column, source.load(column, lanes) * inverse)
