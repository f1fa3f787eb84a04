"""Attention of few queries: a head a unit, keys and values read once, at the speed of memory."""

from __future__ import annotations

from afterglow.backends.cpu.kernels.attention.columns import lane_mask, panels_of
from afterglow.backends.cpu.kernels.attention.masking import RowMask
from afterglow.backends.cpu.kernels.attention.problem import (
    AttentionProblem,
    Results,
    Scratch,
    lanes_of,
)
from afterglow.backends.cpu.kernels.attention.weights import LOWEST, finite_peak, weight
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    convert,
    first_lanes,
    fma,
    larger,
    reduce_max,
    reduce_sum,
    select,
    shuffle,
    smaller,
)
from afterglow.backends.cpu.micro.accumulate import accumulate
from afterglow.backends.cpu.micro.kernel import Phase, Storage
from afterglow.backends.cpu.micro.rows import Row
from afterglow.backends.cpu.micro.tile import RegisterTile, sum_type
from afterglow.backends.cpu.target import Target
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.extent import larger_extent, largest, smallest

MOST_VECTORS = 8
"""Vectors of values that are summed up at a time."""
MOST_UNROLLED = 4
"""Vectors along a key that are written out in a row."""
FEW_KEYS = 4
"""Keys at a time, of a ranged number of keys that is less than a vector has lanes."""


def single_scratch(problem: AttentionProblem, target: Target) -> dict[str, Storage]:
    """The memory for the scores of one query."""
    return {"scores": Storage(sum_type(problem.dtype), _padded_keys(problem, target))}


def _padded_keys(problem: AttentionProblem, target: Target) -> int:
    """Keys, up to a whole vector."""
    lanes = lanes_of(problem, target)
    return -(-problem.keys // lanes) * lanes


@dataclass(frozen=True)
class _Query:
    """A query, by its number in a head, where it lies, and where the keys of its head begin."""

    q: Pointer
    k: Pointer
    batch: Index
    head: Index
    query: Value


class Single:
    """Writes what is done for one query."""

    def __init__(self, p: Phase, problem: AttentionProblem, scratch: Scratch) -> None:
        self.e, self.problem = p.e, problem
        self.dtype = sum_type(problem.dtype)
        self.lanes = p.e.lanes(self.dtype)
        self.group = _power_of_two_within(min(self.lanes, largest(problem.keys)))
        self.padded = _padded_keys(problem, p.target)
        vectors = min(MOST_VECTORS, -(-problem.value_width // self.lanes))
        self.panels = panels_of(problem.value_width, RegisterTile(1, vectors, self.lanes))
        self.sink, self.mask = p.sink(), RowMask(p, problem)
        self.q, self.k, self.v = (p.pointer(x.buffer) for x in (problem.q, problem.k, problem.v))
        self.scores = scratch("scores")

    def write(self, batch: Index, head: Index, query: Value) -> None:
        """One query of a head."""
        problem = self.problem
        q = problem.q.at(self.q, batch, head) + query * problem.q.row_stride
        k = problem.k.at(self.k, batch, head)
        v = problem.v.at(self.v, batch, head)
        inverse = self.e.constant(self.dtype, 1)
        if largest(problem.keys) > 0:
            peak = self._write_scores(_Query(q, k, batch, head, query))
            inverse = 1.0 / larger(1.0, self._write_weights(finite_peak(peak)))
        results = problem.results(self.sink, batch, head, query)
        self._put(v, results, inverse.splat(self.lanes))

    def _write_scores(self, at: _Query) -> Value:
        """The scores of all keys; the largest of them."""
        e, keys = self.e, self.problem.keys
        lowest = e.constant(self.dtype, LOWEST, self.lanes)
        self.scores.store(lowest, larger_extent(self.padded, self.lanes) - self.lanes)
        if smallest(keys) >= self.group:
            return self._write_groups(at)
        (peak,) = e.branch(
            e.index(keys) >= self.group,
            lambda: [self._write_groups(at)],
            lambda: [self._write_few(at)],
        )
        return peak

    def _write_groups(self, at: _Query) -> Value:
        """As many keys at a time as a vector has lanes, the last of them perhaps once more."""
        e, keys, group, stride = self.e, self.problem.keys, self.group, self.problem.k.row_stride

        def write_group(number: Value, peaks: list[Value]) -> list[Value]:
            key = smaller(number * group, keys - group)
            first = at.k + key * stride
            products = self._products(at.q, [first + row * stride for row in range(group)])
            scores = self.mask.scores(at.batch, at.head, at.query, key, sum_of_lanes(products))
            self.scores.store(scores, key)
            return [larger(scores, peaks[0])]

        peaks = e.constant(self.dtype, LOWEST, group)
        (peaks,) = e.fold(-(-keys // group), [peaks], write_group, name="group")
        return reduce_max(peaks, nan=False)

    def _write_few(self, at: _Query) -> Value:
        """A few keys at a time; where there are none left, the last one stands for them."""
        e, keys, few = self.e, self.problem.keys, min(FEW_KEYS, self.group)

        def write_group(key: Value, peaks: list[Value]) -> list[Value]:
            rows = [smaller(key + row, keys - 1) for row in range(few)]
            lines = [at.k + row * self.problem.k.row_stride for row in rows]
            products = sum_of_lanes(self._products(at.q, lines))
            exist = first_lanes(keys - key, few)
            scores = self.mask.scores(at.batch, at.head, at.query, key, products, exist)
            self.scores.store(scores, key)
            return [larger(scores, peaks[0])]

        peaks = e.constant(self.dtype, LOWEST, few)
        (peaks,) = e.fold(keys, [peaks], write_group, step=few, name="group")
        return reduce_max(peaks, nan=False)

    def _products(self, q: Pointer, lines: list[Pointer]) -> list[Value]:
        """For each of some keys the products of its elements, summed up lane by lane."""
        e, lanes, width = self.e, self.lanes, self.problem.width
        strides = self.problem.q.column_stride, self.problem.k.column_stride

        def add(column: Index, sums: list[Value], mask: Value | None = None) -> list[Value]:
            factor = self._load(q, column, strides[0], mask)
            if mask is not None and strides[0] == 0:  # a column that is repeated is in all lanes
                factor = select(mask, factor, 0.0)
            return [
                fma(factor, self._load(line, column, strides[1], mask), total)
                for line, total in zip(lines, sums, strict=True)
            ]

        sums = [e.constant(self.dtype, 0, lanes)] * len(lines)
        whole = width - width % lanes
        if whole <= MOST_UNROLLED * lanes:
            for column in range(0, whole, lanes):
                sums = add(column, sums)
        else:
            sums = e.fold(whole, sums, add, step=lanes, name="column")
        if whole < width:
            sums = add(whole, sums, lane_mask(e, width - whole, lanes))
        return sums

    def _load(self, line: Pointer, column: Index, stride: int, mask: Value | None) -> Value:
        loaded = Row(line, stride).load(column, self.lanes, mask)
        return convert(loaded, self.dtype).splat(self.lanes)

    def _write_weights(self, peak: Value) -> Value:
        """Scores become weights; their sum."""
        peaks = peak.splat(self.lanes)

        def write_vector(key: Value, sums: list[Value]) -> list[Value]:
            scores = self.scores.load(key, self.lanes)
            weights = weight(scores, peaks, self.problem.score_unit)
            self.scores.store(weights, key)
            return [sums[0] + weights]

        zero = self.e.constant(self.dtype, 0, self.lanes)
        (sums,) = self.e.fold(
            self.padded, [zero], write_vector, step=self.lanes, unroll=4, name="key"
        )
        return reduce_sum(sums)

    def _put(self, v: Pointer, results: Results, inverse: Value) -> None:
        """The mixed values."""
        out, stride = results(0), self.problem.v.column_stride
        for panel in self.panels:
            tile = panel.tile
            with self.e.loop(panel.count, name="panel") as place:
                column = place * tile.columns + panel.start
                (sums,) = accumulate(
                    self.e,
                    tile,
                    [self.scores],
                    v + column * stride,
                    self.problem.keys,
                    self.dtype,
                    panel_step=self.problem.v.row_stride,
                    load=panel.load(self.e, stride),
                )
                for vector, total in enumerate(sums):
                    left = panel.valid if vector == tile.vectors - 1 else self.lanes
                    mask = lane_mask(self.e, left, self.lanes)
                    out.put(column + vector * self.lanes, total * inverse, mask)


def sum_of_lanes(vectors: list[Value]) -> Value:
    """The sum of the lanes of each vector, one a lane.

    There may be fewer vectors than lanes, both powers of two.
    """
    lanes = vectors[0].lanes
    distance = 1
    while len(vectors) > 1:
        low = [i if not i & distance else i - distance + lanes for i in range(lanes)]
        high = [i + distance if not i & distance else i + lanes for i in range(lanes)]
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [shuffle(a, b, low) + shuffle(a, b, high) for a, b in pairs]
        distance *= 2
    (sums,) = vectors
    while sums.lanes > distance:
        half = sums.lanes // 2
        sums = shuffle(sums, None, range(half)) + shuffle(sums, None, range(half, 2 * half))
    return sums


def _power_of_two_within(number: int) -> int:
    return 1 << (number.bit_length() - 1) if number else 1
