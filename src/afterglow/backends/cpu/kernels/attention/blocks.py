"""Attention of many queries: a block of them a unit, one in each lane of some vectors.

Scores are kept as [key][query], so that the maxima and sums of softmax are those of whole vectors,
and keys and values are read where they lie. Of many keys a part is seen at a time: what was summed
up before is scaled down when a larger score turns up.
"""

from __future__ import annotations

from math import isqrt

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.attention.columns import lane_mask, panels_of
from afterglow.backends.cpu.kernels.attention.masking import BlockMask, has_own_rows
from afterglow.backends.cpu.kernels.attention.packing import pack_rows
from afterglow.backends.cpu.kernels.attention.problem import AttentionProblem
from afterglow.backends.cpu.kernels.attention.weights import LOWEST, finite_peak, weight
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    fma,
    larger,
    quotient,
    smaller,
)
from afterglow.backends.cpu.micro.accumulate import accumulate
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, Phase, Storage
from afterglow.backends.cpu.micro.rows import split
from afterglow.backends.cpu.micro.tile import RegisterTile, most_rows, sum_type
from afterglow.backends.cpu.target import Target
from afterglow.types.dtype import DType

MOST_KEYS = 512
"""Keys that are seen at a time, so that their scores stay in the second cache."""
LOW_TILE = 8
"""Rows of a tile beyond which it has one less than fits, or LLVM runs out of registers."""
VECTORS = 2
"""Vectors of a tile: of queries for the scores, of columns for the mixed values."""


def blocks_algorithm(problem: AttentionProblem, target: Target) -> Algorithm:
    """The algorithm for many queries."""
    dtype, queries = sum_type(problem.dtype), _queries_of_block(problem, target)
    columns = {
        "packed": problem.width,
        "scores": _keys_of_part(problem),
        "mixed": _pitch(problem, target),
        **dict.fromkeys(("peaks", "sums", "factors"), 1),
        **({"mask": problem.keys} if has_own_rows(problem) else {}),
    }
    scratch = {name: Storage(dtype, count * queries) for name, count in columns.items()}
    return Algorithm(
        "by-block",
        problem.work,
        lambda k: _write_blocks(k, problem, queries),
        KernelNeeds(scratch=scratch),
        {"queries": queries, "keys": _keys_of_part(problem)},
    )


def _write_blocks(kernel: Kernel, problem: AttentionProblem, queries: int) -> None:
    """Write a kernel whose units are blocks of queries of one head."""
    blocks = -(-problem.queries // queries)
    with kernel.phase(problem.batch * problem.heads * blocks, problem.work) as p:
        writer = _Blocks(p, problem, queries)
        with p.units() as unit:
            rest, block = split(unit, blocks)
            batch, head = split(rest, problem.heads)
            writer.write(batch, head, p.e.index(block * queries))


def _queries_of_block(problem: AttentionProblem, target: Target) -> int:
    lanes = max(1, target.vector_bits // sum_type(problem.dtype).bits)
    return lanes * min(VECTORS, -(-problem.queries // lanes))


def _keys_of_part(problem: AttentionProblem) -> int:
    """Keys that are seen at a time."""
    parts = -(-problem.keys // max(MOST_KEYS, 2 * isqrt(problem.keys)))
    return -(-problem.keys // parts)


def _pitch(problem: AttentionProblem, target: Target) -> int:
    """Columns of the values, up to a whole vector."""
    lanes = max(1, target.vector_bits // sum_type(problem.dtype).bits)
    return -(-problem.value_width // lanes) * lanes


def _most_keys(target: Target, vectors: int, dtype: DType) -> int:
    """Keys of a tile at most."""
    most = most_rows(target, vectors, dtype)
    return most - 1 if most > LOW_TILE else most


def _height(keys: int, most: int) -> int:
    """Rows of a tile that cover the keys with little beyond them."""
    heights = range(min(keys, max(1, most // 2)), min(keys, most) + 1)
    return min(heights, key=lambda rows: -(-keys // rows) * (rows + 1))


def _pieces(count: Index, size: int) -> Index:
    """The number of pieces of a size that cover a number of elements."""
    if isinstance(count, int):
        return -(-count // size)
    return quotient(count + (size - 1), size)


class _Blocks:
    """Writes what is done for one block of queries."""

    def __init__(self, p: Phase, problem: AttentionProblem, queries: int) -> None:
        self.e, self.problem, self.queries = p.e, problem, queries
        self.dtype = sum_type(problem.dtype)
        self.lanes = p.e.lanes(self.dtype)
        self.vectors = queries // self.lanes
        self.part = _keys_of_part(problem)
        self.in_parts = self.part < problem.keys
        height = _height(self.part, _most_keys(p.target, self.vectors, self.dtype))
        self.tile = RegisterTile(height, self.vectors, self.lanes)
        most = most_rows(p.target, VECTORS, self.dtype)
        rows = max(rows for rows in range(1, most + 1) if queries % rows == 0)
        self.panels = panels_of(problem.value_width, RegisterTile(rows, VECTORS, self.lanes))
        self.row_stride = _pitch(problem, p.target)
        self.sink = p.sink()
        self.mask = BlockMask(p, problem, self.tile, queries)
        self.q, self.k, self.v = (p.pointer(x.buffer) for x in (problem.q, problem.k, problem.v))
        self.packed, self.scores, self.mixed = map(p.scratch, ("packed", "scores", "mixed"))
        self.peaks, self.sums, self.factors = map(p.scratch, ("peaks", "sums", "factors"))

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
        if self.in_parts:
            e.zero(self.mixed, self.queries * self.row_stride)
        seen = self._seen(first)
        with e.loop(seen, step=self.part, name="part") as start:
            count = self._count(start, seen)
            self._write_scores(k, start, count)
            self._write_weights(count)
            self._write_mixed(v + start * problem.v.row_stride, first, count)
        number = (batch * problem.heads + head) * problem.queries + first
        self._put(number, self._valid(first))

    def _seen(self, first: Value) -> Index:
        """How many keys any query of the block sees; as many as a tile has at least."""
        keys = self.problem.keys
        if not self.problem.causal:
            return keys
        last = first + (self.queries + keys - self.problem.queries)
        return larger(smaller(last, keys), self.tile.rows)

    def _count(self, start: Value, seen: Index) -> Index:
        """How many keys there are in the part that begins at `start`; as many as a tile has."""
        if not self.in_parts:
            return seen
        return larger(smaller(self.e.index(seen) - start, self.part), self.tile.rows)

    def _valid(self, first: Value) -> Index:
        """How many queries of the block exist."""
        if self.problem.queries % self.queries == 0:
            return self.queries
        return smaller(self.problem.queries - first, self.queries)

    def _write_scores(self, k: Pointer, start: Value, count: Index) -> None:
        """Tiles of keys by queries; the last one may do keys again that the one before has done."""
        problem, tile = self.problem, self.tile

        def write_tile(number: Value, peaks: list[Value]) -> list[Value]:
            place = smaller(number * tile.rows, self.e.index(count) - tile.rows)
            key = start + place
            first = k + key * problem.k.row_stride
            products = accumulate(
                self.e,
                tile,
                [first + row * problem.k.row_stride for row in range(tile.rows)],
                self.packed,
                problem.width,
                self.dtype,
                row_step=problem.k.column_stride,
            )
            line = self.scores + place * self.queries
            for row, vectors in enumerate(products):
                made = self.mask.scores(key, row, vectors)
                self._store(line + row * self.queries, made)
                peaks = [larger(a, b) for a, b in zip(made, peaks, strict=True)]
            return peaks

        before = self._load(self.peaks)
        peaks = self.e.fold(_pieces(count, tile.rows), before, write_tile, name="tile")
        if self.in_parts:
            unit = problem.score_unit
            pairs = zip(before, peaks, strict=True)
            self._store(self.factors, [weight(old, finite_peak(new), unit) for old, new in pairs])
        self._store(self.peaks, peaks)

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

    def _write_mixed(self, v: Pointer, first: Value, count: Index) -> None:
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
                        sums = self._joined(made, row, sums)
                    for r, vectors in enumerate(sums):
                        for number_, vector in enumerate(vectors):
                            made.store(vector, r * self.row_stride + number_ * self.lanes)

    def _joined(self, made: Pointer, row: Value, sums: list[list[Value]]) -> list[list[Value]]:
        """Sums of this part, and what earlier parts have summed up, scaled to the peak of now."""
        found = []
        for r, vectors in enumerate(sums):
            factor = self.factors.broadcast(row + r, self.lanes)
            line = made + r * self.row_stride
            loads = [line.load(v * self.lanes, self.lanes) for v in range(len(vectors))]
            pairs = zip(loads, vectors, strict=True)
            found.append([fma(before, factor, total) for before, total in pairs])
        return found

    def _put(self, number: Value, valid: Index) -> None:
        """Divide by the sums of the weights."""
        width = self.problem.value_width
        with self.e.loop(valid, name="row") as row:
            out, line = self.sink.row(number + row), self.mixed + row * self.row_stride
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
