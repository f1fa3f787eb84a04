"""Attention without stored scores.

A program has a block of queries, and goes through the keys a block at a time. Where there are few
queries, several programs share the keys of a block: the last one puts together what all found.
"""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.backends.broadcast import strides_within
from afterglow.backends.cuda.kernels.attention_plan import (
    LEAST,
    AttentionExtents,
    AttentionTile,
    attention_plans,
)
from afterglow.backends.cuda.kernels.attention_rows import QueryRows
from afterglow.backends.cuda.kernels.kernel import Kernel, KernelSource
from afterglow.backends.cuda.kernels.online import LOG2_E
from afterglow.backends.cuda.kernels.table import ANCHORS
from afterglow.backends.cuda.target import CudaTarget
from afterglow.backends.cuda.tl import Value
from afterglow.backends.items.chain import load
from afterglow.backends.job import Job
from afterglow.backends.pointwise.vocabulary import convert, select
from afterglow.instr import KernelPlan, OpInstr
from afterglow.ops.attention import Attention
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import bf16, boolean, f16, f32

_WIDEST = 256
"""Elements of a query or value at most."""
FEW_KEYS = 64
"""Keys of a query up to which the rounding of weights shows, as they are too few to average it."""


def _accepts(step: OpInstr, target: CudaTarget) -> bool:
    q, v = step.operand(0).type, step.operand(2).type
    return q.dtype in (f16, bf16, f32) and max(q.shape[3], v.shape[3]) <= _WIDEST


@dataclass(frozen=True)
class Folding:
    """How queries become rows: those of heads that share keys together, if they are few."""

    heads: int
    """Sets of rows of an image."""
    folded: int
    """Heads of each."""
    queries: int
    keys: int

    @staticmethod
    def of(step: OpInstr) -> Folding:
        """Of an attention."""
        heads, queries = step.operand(0).type.shape[1:3]
        shared, keys = step.operand(1).type.shape[1:3]
        folded = heads // shared if queries <= LEAST else 1
        return Folding(heads // folded, folded, queries, keys)

    @property
    def rows(self) -> int:
        """Rows of a set."""
        return self.folded * self.queries

    @property
    def ahead(self) -> int:
        """How many keys come before that of the first query."""
        return self.keys - self.queries


def _plans(job: Job, target: CudaTarget) -> Sequence[KernelPlan]:
    step = job.anchor
    assert step is not None
    assert isinstance(step.op, Attention)
    q, v = step.operand(0).type, step.operand(2).type
    folding = Folding.of(step)
    hidden = folding.queries / (2 * max(1, folding.keys))
    part = 1 - hidden if step.op.causal and folding.queries > LEAST else 1.0
    moved = sum(buffer.type.nbytes for buffer in job.buffers)
    extents = AttentionExtents(
        q.shape[0] * folding.heads,
        folding.rows,
        folding.keys,
        q.shape[3],
        v.shape[3],
        q.dtype,
        moved,
        part,
    )
    return attention_plans(extents, target)


@ANCHORS.declare(Attention, accepts=_accepts, plans=_plans)
def write_attention(job: Job, target: CudaTarget, plan: KernelPlan) -> KernelSource:
    """Blocks of queries by blocks of keys, for each head."""
    kernel = Kernel(job, target)
    tile = AttentionTile.of(plan)
    kernel.warps, kernel.stages, kernel.fuses = tile.warps, tile.stages, True
    _Rows(kernel, tile).write()
    return kernel.finish()


class _Rows(QueryRows):
    """The queries of a program: of a head, or of all heads that share keys if they are few."""

    def __init__(self, kernel: Kernel, tile: AttentionTile) -> None:
        step = kernel.step
        assert isinstance(step.op, Attention)
        self.op, self.folding = step.op, Folding.of(step)
        self.is_causal = step.op.causal and self.folding.queries > 1
        self.mask = step.optional(3)
        is_log2 = self.mask is None or self.mask.type.dtype is boolean
        few = self.folding.rows <= LEAST or self.folding.keys <= FEW_KEYS
        super().__init__(kernel, tile, is_log2=is_log2, keeps_weights=few)

    def find_place(self) -> None:
        """See the base."""
        code, folding, tile = self.code, self.folding, self.tile
        images, heads = self.step.outs[0].type.shape[:2]
        blocks = -(-folding.rows // tile.rows)
        self.groups = blocks * folding.heads * images
        self.kernel.grid = (self.groups, tile.shares, 1)
        block = code.named(self.group.combined("%", blocks))
        if self.is_causal:
            # those that see the most keys begin first
            block = code.named((blocks - 1) - block)
        rest = code.named(self.group.combined("/", blocks))
        first_head = code.named(rest.combined("%", folding.heads) * folding.folded)
        self.image = code.named(rest.combined("/", folding.heads))
        self.first = code.named(block * tile.rows)
        row = code.named(self.first + self.row)
        self.inside = row < folding.rows if folding.rows % tile.rows else None
        shared = heads // self.step.operand(1).type.shape[1]
        self.key_head = code.named(first_head.combined("/", shared))
        self.query, head = row, first_head
        if folding.folded > 1:
            self.query = code.named(row.combined("%", folding.queries))
            head = code.named(first_head + row.combined("/", folding.queries))
        self.place = [self.image, head, self.query]

    def take_all(self) -> None:
        """Blocks that are seen as a whole, then those of which some keys are hidden."""
        code, tile = self.code, self.tile
        whole, end = self._bounds()
        start: Value | int = 0
        edge = whole
        if tile.shares > 1:
            each = tile.each(self.folding.keys)
            start = code.named(code.program(1) * each)
            last = code.named(start + each)
            whole, end = code.smaller(last, whole), code.smaller(last, end)
            edge = self._larger(start, whole)
        if whole != 0:
            with code.loop(whole, start, tile.keys) as key:
                self._take(key, is_edge=False)
        if edge != end:
            with code.loop(end, edge, tile.keys) as key:
                self._take(key, is_edge=True)

    def _bounds(self) -> tuple[Value | int, Value | int]:
        """Before which key all blocks are seen as a whole, and which is the end of all."""
        folding, size = self.folding, self.tile.keys
        if not self.is_causal:
            return folding.keys // size * size, folding.keys
        if folding.folded > 1 or folding.rows <= self.tile.rows:
            return (folding.ahead + 1) // size * size, folding.keys
        seen = self.first + (folding.ahead + 1)
        whole = self.code.named(seen.combined("/", size) * size)
        last = self.first + (folding.ahead + self.tile.rows)
        return whole, self.code.smaller(last, folding.keys)

    def _larger(self, a: Value, b: Value) -> Value:
        made = self.code.define(f"tl.maximum({a.text}, {b.text})", self.code.index_type)
        return self.code.as_index(made)

    def _take(self, start: Value, *, is_edge: bool) -> None:
        """The scores of a block of keys, and their values."""
        code, keys = self.code, self.folding.keys
        key = code.named(start + code.range(self.tile.keys))
        down, across = code.along(key, 0, 2), code.along(key, 1, 2)
        ends = is_edge and keys % self.tile.keys != 0
        there, seen = (down < keys, across < keys) if ends else (None, None)
        head = [self.image, self.key_head, down]
        k = self.load(self.step.operand(1), [*head, self.q_columns], there)
        scale = self.op.scale * (LOG2_E if self.online.is_log2 else 1)
        scores = self._masked(self.scores_of(k) * scale, across, seen)
        if is_edge and self.is_causal:
            scores = select(across <= self.query + self.folding.ahead, scores, float("-inf"))
        if seen is not None:
            scores = select(seen, scores, float("-inf"))
        v = self.load(self.step.operand(2), [*head, self.v_columns], there)
        self.online.add(scores, v)

    def _masked(self, scores: Value, key: Value, seen: Value | None) -> Value:
        """Scores with the mask that is given, if one is."""
        if self.mask is None:
            return scores
        shape = (*self.step.outs[0].type.shape[:3], self.folding.keys)
        strides = strides_within(self.mask, shape)
        with self.where(self.inside, seen):
            given = load(self.kernel, self.mask, [*self.place, key], strides)
        if given.dtype is boolean:
            return select(given, scores, float("-inf"))
        return scores + convert(given, f32)
