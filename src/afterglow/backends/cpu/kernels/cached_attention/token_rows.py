"""One token and one head of the caches: what its queries get from a block of positions.

The heads of queries that share the head of the caches go over each block together. What a block
gives is a *part*: for each of the heads the largest score, the sum of weights, and mixed values.
"""

from __future__ import annotations

from afterglow.backends.cpu.kernels.attention.single import sum_of_lanes
from afterglow.backends.cpu.kernels.attention.weights import LOWEST, power_down
from afterglow.backends.cpu.kernels.cached_attention.problem import (
    BLOCK,
    CacheProblem,
    CacheRows,
    HeadRows,
    positions_from,
)
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    convert,
    equal,
    fma,
    larger,
    quotient,
    reduce_max,
    reduce_sum,
    select,
    smaller,
)
from afterglow.backends.cpu.micro.kernel import Phase, Storage
from afterglow.backends.cpu.micro.rows import Row
from afterglow.backends.cpu.target import Target

WIDE = 4
"""Vectors of values that several queries multiply at a time, so that each is loaded once."""


def part_size(problem: CacheProblem) -> int:
    """Elements of a part."""
    return problem.group * (problem.value_width + 2)


def token_scratch(problem: CacheProblem, target: Target) -> dict[str, Storage]:
    """The memory of a thread: queries, scores of a block, a part, and what parts add up to."""
    lanes, group = problem.lanes(target), problem.group
    counts = {
        "query": group * problem.width,
        "scores": group * (BLOCK + lanes),
        "part": part_size(problem),
        "sum": part_size(problem),
    }
    return {name: Storage(problem.dtype, count) for name, count in counts.items()}


class TokenRows:
    """Writes what is done for one token and one head of the caches."""

    def __init__(self, p: Phase, problem: CacheProblem) -> None:
        self.e, self.problem, self.dtype = p.e, problem, problem.dtype
        self.lanes = problem.lanes(p.target)
        self.row = BLOCK + self.lanes
        self.sums = p.target.vector_registers // 2
        self.q = p.step.required[0]
        self.q_pointer, self.sink = p.pointer(self.q), p.sink()
        self.keys, self.values = (CacheRows(p, problem, name) for name in ("keys", "values"))
        self.query, self.scores, self.part, self.sum = (
            p.scratch(name) for name in ("query", "scores", "part", "sum")
        )

    def load_query(self, token: Index, head: Index) -> None:
        """Multiply the queries of a token by the scale, once for all keys."""
        problem, strides = self.problem, self.q.strides
        with self.e.loop(problem.group, name="query") as r:
            start = token * strides[0] + (head * problem.group + r) * strides[1]
            source = Row(self.q_pointer + start, strides[2])
            with self.e.loop(problem.width, step=self.lanes) as column:
                x = convert(source.load(column, self.lanes), self.dtype)
                self.query.store(x * problem.factor, r * problem.width + column)

    def write_part(
        self, part: Pointer, sequence: Index, head: Index, start: Value, stop: Value
    ) -> None:
        """What a block of positions gives."""
        self._write_scores(self.keys.head(sequence, head), start, stop)
        values = self.values.head(sequence, head)
        with self.e.loop(self.problem.group, name="query") as r:
            self._write_weights(part, values, r, stop - start, start)
        self._mix(part + 2 * self.problem.group, values, start, stop)

    def _write_scores(self, keys: HeadRows, start: Value, stop: Value) -> None:
        """The scores of all positions and queries; as many positions at a time as lanes."""
        e, lanes, group = self.e, self.lanes, self.problem.group
        with e.loop(stop, start=start, step=lanes, name="key") as key:
            lines = self._lines(keys, key)
            scales = self._scales(keys, key)
            exist = positions_from(key, lanes) < stop
            with e.loop(group, name="query") as r:
                score = self._products(keys, lines, r)
                score = score if scales is None else score * scales
                score = select(exist, self.problem.capped(score), LOWEST)
                self.scores.store(score, r * self.row + (key - start))

    @property
    def _is_whole(self) -> bool:
        """Whether vectors of positions never go beyond the context."""
        return self.problem.context % self.lanes == 0 and not self.problem.op.window

    def _lines(self, keys: HeadRows, key: Value) -> list[Pointer]:
        """Rows of neighbouring positions; beyond the context, the last one."""
        if self._is_whole:
            first = keys.line(key)
            return [first + at * self.keys.stride for at in range(self.lanes)]
        last = self.problem.context - 1
        return [keys.line(smaller(key + at, last)) for at in range(self.lanes)]

    def _scales(self, keys: HeadRows, key: Value) -> Value | None:
        """The scales of neighbouring positions, if there are any; beyond the context, the last."""
        if self._is_whole:
            return keys.scales(key, self.lanes)
        return keys.scales_at(smaller(positions_from(key, self.lanes), self.problem.context - 1))

    def _products(self, keys: HeadRows, lines: list[Pointer], r: Index) -> Value:
        """The products of a query with some keys, one a lane."""
        e, lanes, width = self.e, self.lanes, self.problem.width
        query = self.query + r * width

        def add(column: Index, sums: list[Value]) -> list[Value]:
            factor = query.load(column, lanes)
            pairs = zip(lines, sums, strict=True)
            return [fma(factor, keys.load(line, column, lanes), total) for line, total in pairs]

        sums = [e.constant(self.dtype, 0, lanes)] * lanes
        if width <= 8 * lanes:
            for column in range(0, width, lanes):
                sums = add(column, sums)
        else:
            sums = e.fold(width, sums, add, step=lanes, name="column")
        return sum_of_lanes(sums)

    def _write_weights(
        self, part: Pointer, values: HeadRows, r: Index, count: Value, start: Value
    ) -> None:
        """Scores become weights, which are multiplied by the scales of values afterwards."""
        e, lanes = self.e, self.lanes
        scores = self.scores + r * self.row

        def largest_of(at: Value, most: list[Value]) -> list[Value]:
            return [larger(scores.load(at, lanes), most[0])]

        lowest = e.constant(self.dtype, LOWEST, lanes)
        (most,) = e.fold(count, [lowest], largest_of, step=lanes, name="key")
        peak = reduce_max(most, nan=False)
        peaks = peak.splat(lanes)

        def write_vector(at: Value, sums: list[Value]) -> list[Value]:
            weights = power_down(scores.load(at, lanes) - peaks)
            scores.store(weights, at)
            return [sums[0] + weights]

        zero = e.constant(self.dtype, 0, lanes)
        (sums,) = e.fold(count, [zero], write_vector, step=lanes, name="key")
        if values.scale is not None:
            with e.loop(count, name="key") as at:
                scale = values.scales(start + at)
                assert scale is not None
                scores.store(scores.load(at) * scale, at)
        part.store(peak, r)
        part.store(reduce_sum(sums), self.problem.group + r)

    def _mix(self, mixed: Pointer, values: HeadRows, start: Value, stop: Value) -> None:
        """The sums of weighted values, for some queries and columns at a time."""
        vectors, group = self.problem.value_width // self.lanes, self.problem.group
        width = min(vectors, WIDE if group > 1 else self.sums)
        several = max(1, min(self.sums // width, group))
        for first in range(0, vectors, width):
            columns = range(first, min(first + width, vectors))
            whole = group - group % several
            with self.e.loop(whole, step=several, name="query") as r:
                self._mix_some(mixed, values, (start, stop), r, several, columns)
            if whole < group:
                self._mix_some(mixed, values, (start, stop), whole, group - whole, columns)

    def _mix_some(
        self,
        mixed: Pointer,
        values: HeadRows,
        span: tuple[Value, Value],
        r: Index,
        count: int,
        columns: range,
    ) -> None:
        lanes, (start, stop) = self.lanes, span
        scores = self.scores + r * self.row

        def add(key: Value, sums: list[Value]) -> list[Value]:
            line, at = values.line(key), scores + (key - start)
            loaded = [values.load(line, column * lanes, lanes) for column in columns]
            weights = [at.broadcast(i * self.row, lanes) for i in range(count)]
            terms = [(weight, value) for weight in weights for value in loaded]
            return [fma(*pair, total) for pair, total in zip(terms, sums, strict=True)]

        zero = self.e.constant(self.dtype, 0, lanes)
        sums = self.e.fold(
            stop, [zero] * (count * len(columns)), add, start=start, unroll=2, name="key"
        )
        to = mixed + r * self.problem.value_width
        for i in range(count):
            for at, column in enumerate(columns):
                place = i * self.problem.value_width + column * lanes
                to.store(sums[i * len(columns) + at], place)

    def add_part(self, part: Pointer) -> None:
        """Add a part to the sum of earlier ones."""
        e, group, lanes, width = self.e, self.problem.group, self.lanes, self.problem.value_width
        with e.loop(group, name="query") as r:
            before, peak = self.sum.load(r), part.load(r)
            most = larger(before, peak)
            old, new = power_down(before - most), power_down(peak - most)
            total = fma(self.sum.load(group + r), old, part.load(group + r) * new)
            self.sum.store(most, r)
            self.sum.store(total, group + r)
            to, source = (x + 2 * group + r * width for x in (self.sum, part))
            with e.loop(width, step=lanes) as column:
                added = source.load(column, lanes) * new
                to.store(fma(to.load(column, lanes), old.splat(lanes), added), column)

    def copy_part(self, part: Pointer) -> None:
        """Begin the sum with a part."""
        with self.e.loop(part_size(self.problem)) as at:
            self.sum.store(part.load(at), at)

    def put(self, token: Index, head: Index) -> None:
        """Write the results of a token: the sum of mixed values over that of weights."""
        problem, lanes = self.problem, self.lanes
        with self.e.loop(problem.group, name="query") as r:
            inverse = 1.0 / self.sum.load(problem.group + r)
            mixed = self.sum + 2 * problem.group + r * problem.value_width
            row = self.sink.row_at((token, head * problem.group + r))
            with self.e.loop(problem.value_width, step=lanes) as column:
                row.put(column, mixed.load(column, lanes) * inverse)

    def write_all(self, token: Index, head: Index, position: Value, sequence: Value) -> None:
        """All positions that a token sees, block after block."""
        e = self.e
        self.load_query(token, head)
        first = self.problem.first(position)
        begin = block_of(first)
        stop = position + 1
        with e.loop(block_of(position) + 1, start=begin, name="block") as block:
            start, end = block_span(block, first, stop)
            self.write_part(self.part, sequence, head, start, end)
            with e.when(equal(block, begin)):
                self.copy_part(self.part)
            with e.when(block > begin):
                self.add_part(self.part)
        self.put(token, head)


def block_of(position: Value) -> Value:
    """The number of the block that a position is in."""
    return quotient(position, BLOCK)


def block_span(block: Value, first: Value, stop: Value) -> tuple[Value, Value]:
    """The positions of a block that are seen."""
    start = block * BLOCK
    return larger(start, first), smaller(start + BLOCK, stop)
