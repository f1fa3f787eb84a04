"""The scores of a block of queries, as [key][query]: one query in each lane of some vectors."""

from __future__ import annotations

from afterglow.backends.cpu.kernels.attention.block_plan import LAST_KEYS, BlockPlan
from afterglow.backends.cpu.kernels.attention.columns import load_vectors, store_vectors
from afterglow.backends.cpu.kernels.attention.masking import BlockMask
from afterglow.backends.cpu.kernels.attention.packing import pack_rows
from afterglow.backends.cpu.kernels.attention.problem import Scratch
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    larger,
    quotient,
    remainder,
    smaller,
)
from afterglow.backends.cpu.micro.accumulate import accumulate
from afterglow.backends.cpu.micro.kernel import Phase
from afterglow.types.extent import is_ranged


def pieces_of(count: Index, size: int) -> Index:
    """The number of pieces of a size that cover a number of elements."""
    return -(-count // size) if isinstance(count, int) else quotient_up(count, size)


def quotient_up(count: Value, size: int) -> Value:
    """The quotient, rounded up."""
    return quotient(count + (size - 1), size)


class BlockScores:
    """Writes the scores of one block of queries."""

    def __init__(self, p: Phase, plan: BlockPlan, scratch: Scratch) -> None:
        problem = plan.problem
        self.e, self.problem, self.queries = p.e, problem, plan.queries
        self.dtype, self.lanes, self.tile = plan.dtype, plan.lanes, plan.key_tile
        self.vectors = self.tile.vectors
        self.is_ranged = is_ranged(problem.keys)
        self.mask = BlockMask(p, plan, scratch)
        self.q, self.k, self.v = (p.pointer(x.buffer) for x in (problem.q, problem.k, problem.v))
        self.packed, self.scores, self.peaks = map(scratch, ("packed", "scores", "peaks"))

    def begin(self, batch: Index, head: Index, first: Value) -> None:
        """Prepare for the queries from `first` on of one head."""
        problem = self.problem
        q = problem.q.at(self.q, batch, head)
        pack_rows(
            self.e, self.packed, q, problem.q, first, problem.queries, problem.width, self.tile
        )
        self.mask.begin(batch, head, first)

    def seen(self, first: Value) -> Index:
        """How many keys any query of the block sees; of a known number at least a tile's."""
        keys = self.problem.keys
        if not self.problem.causal:
            return self.e.index(keys) if self.is_ranged else keys
        last = first + (self.queries + keys - self.problem.queries)
        return self.tile_at_least(smaller(last, keys))

    def tile_at_least(self, count: Value) -> Value:
        """As many keys, but of a known number no fewer than a tile has."""
        return count if self.is_ranged else larger(count, self.tile.rows)

    def valid(self, first: Value) -> Index:
        """How many queries of the block exist."""
        if self.problem.queries % self.queries == 0:
            return self.queries
        return smaller(self.problem.queries - first, self.queries)

    def write_scores(
        self, k: Pointer, start: Value, count: Index, peaks: list[Value]
    ) -> list[Value]:
        """The scores of `count` keys from `start` on; for each query the largest so far."""
        write = self._write_any_tiles if self.is_ranged else self._write_tiles
        return write(k, start, count, peaks)

    def _write_tiles(
        self, k: Pointer, start: Value, count: Index, peaks: list[Value]
    ) -> list[Value]:
        """Tiles of one height; the last one may do keys again that the one before has done."""

        def write_tile(number: Value, peaks: list[Value]) -> list[Value]:
            return self._write_tile(k, start, self.place_of(number, count), peaks)

        return self.e.fold(pieces_of(count, self.tile.rows), peaks, write_tile, name="tile")

    def place_of(self, number: Value, count: Index) -> Value:
        """Where a tile begins that covers some of `count` keys: the last one ends with them."""
        return smaller(number * self.tile.rows, self.e.index(count) - self.tile.rows)

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
            store_vectors(line + number * self.queries, made)
            peaks = [larger(a, b) for a, b in zip(made, peaks, strict=True)]
        return peaks

    def load(self, line: Pointer) -> list[Value]:
        """A number for each query."""
        return load_vectors(line, self.tile)
