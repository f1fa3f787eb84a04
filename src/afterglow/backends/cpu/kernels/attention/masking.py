"""Scores as softmax takes them: scaled, masked."""

from __future__ import annotations

from afterglow.backends.cpu.kernels.attention.block_plan import BlockPlan
from afterglow.backends.cpu.kernels.attention.packing import pack_rows
from afterglow.backends.cpu.kernels.attention.problem import AttentionProblem, Heads, Scratch
from afterglow.backends.cpu.kernels.attention.weights import LOWEST
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    convert,
    differ,
    fma,
    gather,
    lane_numbers,
    load_masked,
    select,
)
from afterglow.backends.cpu.micro.kernel import Phase
from afterglow.backends.cpu.micro.tile import sum_type
from afterglow.types.dtype import i32
from afterglow.types.extent import largest


class BlockMask:
    """Finishes scores of a key with a block of queries, one a lane.

    A mask that differs between queries is put beside the scores first, [key][query].
    """

    def __init__(self, p: Phase, plan: BlockPlan, scratch: Scratch) -> None:
        problem = plan.problem
        self.e, self.problem, self.tile, self.queries = p.e, problem, plan.key_tile, plan.queries
        self.dtype = sum_type(problem.dtype)
        self.mask = problem.mask
        self.line: Pointer | None = None
        self.last: Value | None = None
        if self.mask is not None:
            self.pointer = p.pointer(self.mask.buffer)
        if problem.has_own_masks:
            self.packed = scratch("mask")

    def begin(self, batch: Index, head: Index, first: Value) -> None:
        """Prepare for a block of queries."""
        problem, mask = self.problem, self.mask
        if mask is not None:
            self.line = mask.at(self.pointer, batch, head)
            if problem.has_own_masks:
                rows, columns = problem.queries, problem.keys
                pack_rows(self.e, self.packed, self.line, mask, first, rows, columns, self.tile)
        if problem.causal:
            self.last = first + (problem.keys - problem.queries)

    def scores(self, key: Value, row: int, products: list[Value]) -> list[Value]:
        """The scores of key number `key + row`, from q k."""
        masks = self._masks(key, row)
        scale = self.problem.score_scale
        scores = []
        for v, product in enumerate(products):
            score = _masked(product, scale, masks[v], adds=self.problem.adds_mask)
            scores.append(self._causal(score, key, row, v))
        return scores

    def _causal(self, score: Value, key: Value, row: int, vector: int) -> Value:
        """Without keys that come after the queries.

        Lanes are counted anew in each tile: it leaves no registers to keep the numbers in.
        """
        if self.last is None:
            return score
        lanes = self.tile.lanes
        ahead = lane_numbers(self.e, i32, lanes) + convert(self.last - key, i32)
        return select(ahead >= row - vector * lanes, score, LOWEST)

    def _masks(self, key: Value, row: int) -> list[Value | None]:
        """The mask for each vector."""
        lanes, vectors = self.tile.lanes, self.tile.vectors
        if self.mask is None or self.line is None:
            return [None] * vectors
        if self.mask.row_stride == 0:
            stride = self.mask.column_stride
            element = (self.line + key * stride).load(row * stride)
            return [convert(element, self.dtype).splat(lanes)] * vectors
        line = self.packed + key * self.queries
        return [line.load(row * self.queries + v * lanes, lanes) for v in range(vectors)]


def _masked(product: Value, scale: float, mask: Value | None, *, adds: bool) -> Value:
    if mask is not None and adds:
        return fma(product, scale, mask)
    scaled = product * scale
    return scaled if mask is None else select(differ(mask, 0.0), scaled, LOWEST)


class RowMask:
    """Finishes scores of one query with neighbouring keys, one a lane."""

    def __init__(self, p: Phase, problem: AttentionProblem) -> None:
        self.e, self.problem = p.e, problem
        self.dtype = sum_type(problem.dtype)
        self.mask: Heads | None = problem.mask
        if self.mask is not None:
            self.pointer = p.pointer(self.mask.buffer)

    def scores(
        self,
        batch: Index,
        head: Index,
        query: Index,
        key: Value,
        products: Value,
        exist: Value | None = None,
    ) -> Value:
        """The scores of a query with the keys from `key` on, from q k; `exist` says which exist."""
        problem, lanes = self.problem, products.lanes
        mask = None
        if self.mask is not None:
            line = self.mask.at(self.pointer, batch, head) + query * self.mask.row_stride
            loaded = self._load(line, key, lanes, exist)
            mask = convert(loaded, self.dtype).splat(lanes)
        score = _masked(products, problem.score_scale, mask, adds=problem.adds_mask)
        if problem.causal and largest(problem.queries) > 1:
            keys = lane_numbers(self.e, self.e.index_type, lanes) + key
            last = self.e.index(query + (problem.keys - problem.queries))
            score = select(keys <= last, score, LOWEST)
        return score if exist is None else select(exist, score, LOWEST)

    def _load(self, line: Pointer, key: Value, lanes: int, exist: Value | None) -> Value:
        assert self.mask is not None
        stride = self.mask.column_stride
        if stride == 0:
            return line.load()
        if stride == 1:
            place = line + key
            return place.load(0, lanes) if exist is None else load_masked(place, exist)
        places = lane_numbers(self.e, self.e.index_type, lanes, stride)
        return gather(line + key * stride, places, exist)
