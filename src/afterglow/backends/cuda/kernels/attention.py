"""Attention without stored scores.

A program has a block of queries, and goes through the keys a block at a time. Where there are few
queries, several programs share the keys of a block: the last one puts together what all found.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from afterglow.backends.broadcast import strides_within
from afterglow.backends.cuda.kernels.attention_plan import (
    LEAST,
    AttentionExtents,
    AttentionTile,
    attention_plans,
    padded,
)
from afterglow.backends.cuda.kernels.kernel import Kernel, KernelSource
from afterglow.backends.cuda.kernels.last_arriver import last_program
from afterglow.backends.cuda.kernels.online import LOG2_E, Online
from afterglow.backends.cuda.kernels.table import ANCHORS
from afterglow.backends.cuda.target import CudaTarget
from afterglow.backends.cuda.tl import Value
from afterglow.backends.cuda.tl.code import offset
from afterglow.backends.items.around import write_result
from afterglow.backends.items.chain import load
from afterglow.backends.job import Job
from afterglow.backends.pointwise.vocabulary import convert, select
from afterglow.instr import KernelPlan, OpInstr
from afterglow.ops.attention import Attention
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import bf16, boolean, f16, f32

_WIDEST = 256
"""Elements of a query or value at most."""


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


class _Rows:
    """The queries of a program."""

    def __init__(self, kernel: Kernel, tile: AttentionTile) -> None:
        step = kernel.step
        assert isinstance(step.op, Attention)
        self.kernel, self.code, self.tile = kernel, kernel.code, tile
        self.step, self.op, self.folding = step, step.op, Folding.of(step)
        self.is_causal = step.op.causal and self.folding.queries > 1
        self.mask = step.optional(3)
        self.is_log2 = self.mask is None or self.mask.type.dtype is boolean
        self._place()
        self.width, self.q_columns = self._columns(0)
        self.columns, self.v_columns = self._columns(2)
        with ExitStack() as masks:
            self._enter(masks, self.inside, self._within(self.q_columns, 0))
            where = offset(self.code, [*self.place, self.q_columns], step.operand(0).strides)
            self.q = kernel.pointer(step.operand(0)).load(where)

    def _place(self) -> None:
        """Which queries these are."""
        code, folding, tile = self.code, self.folding, self.tile
        images = self.step.outs[0].type.shape[0]
        blocks = -(-folding.rows // tile.rows)
        self.groups = blocks * folding.heads * images
        self.kernel.grid = (self.groups, tile.shares, 1)
        self.group = code.program()
        block = code.named(self.group.combined("%", blocks))
        if self.is_causal:
            # those that see the most keys begin first
            block = code.named((blocks - 1) - block)
        rest = code.named(self.group.combined("/", blocks))
        head = code.named(rest.combined("%", folding.heads))
        self.image = code.named(rest.combined("/", folding.heads))
        self.first = code.named(block * tile.rows)
        self.row = code.along(code.range(tile.rows), 0, 2)
        row = code.named(self.first + self.row)
        self.inside = row < folding.rows if folding.rows % tile.rows else None
        group = self.step.outs[0].type.shape[1] // self.step.operand(1).type.shape[1]
        self.key_head = code.named((head * folding.folded).combined("/", group))
        self.query, self.head = row, head
        if folding.folded > 1:
            self.query = code.named(row.combined("%", folding.queries))
            self.head = code.named(head * folding.folded + row.combined("/", folding.queries))
        self.place = [self.image, self.head, self.query]

    def _columns(self, operand: int) -> tuple[int, Value]:
        """The elements of a row of an operand, as a block that holds them."""
        extent = padded(self.step.operand(operand).type.shape[3])
        return extent, self.code.along(self.code.range(extent), 1, 2)

    def _within(self, columns: Value, operand: int) -> Value | None:
        """Which of them there are, if the block is wider."""
        extent = self.step.operand(operand).type.shape[3]
        return columns < extent if extent != padded(extent) else None

    def _enter(self, masks: ExitStack, *conditions: Value | None) -> None:
        for condition in conditions:
            if condition is not None:
                masks.enter_context(self.code.when(condition))

    def write(self) -> None:
        """All keys, block by block, then the results."""
        rows, tile = self.tile.rows, self.tile
        self.online = Online(
            self.code, rows, self.columns, is_log2=self.is_log2, options=tile.options
        )
        whole, end = self._bounds()
        start: Value | int = 0
        if tile.shares > 1:
            each = tile.each(self.folding.keys)
            start = self.code.named(self.code.program(1) * each)
            last = self.code.named(start + each)
            whole, end = self._least(last, whole), self._least(last, end)
        edge = self._most(start, whole) if tile.shares > 1 else whole
        if whole != 0:
            with self.code.loop(whole, start, tile.keys) as key:
                self._take(key, is_edge=False)
        if edge != end:
            with self.code.loop(end, edge, tile.keys) as key:
                self._take(key, is_edge=True)
        self.kernel.release_dependents()
        if tile.shares > 1:
            self._combine()
        else:
            self._write(self.online.result())

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

    def _least(self, a: Value, b: Value | int) -> Value:
        return self.code.smaller(a, b)

    def _most(self, a: Value | int, b: Value | int) -> Value:
        texts = [x.text if isinstance(x, Value) else str(x) for x in (a, b)]
        made = self.code.define(f"tl.maximum({texts[0]}, {texts[1]})", self.code.index_type)
        return self.code.as_index(made)

    def _take(self, start: Value, *, is_edge: bool) -> None:
        """The scores of a block of keys, and their values."""
        code, size = self.code, self.tile.keys
        key = code.named(start + code.range(size))
        down, across = code.along(key, 0, 2), code.along(key, 1, 2)
        ends = is_edge and self.folding.keys % size != 0
        there = down < self.folding.keys if ends else None
        k = self._rows_of(1, down, self.q_columns, there)
        products = f"tl.dot({self.q.text}, tl.trans({k.text}){self.tile.options})"
        scale = self.op.scale * (LOG2_E if self.is_log2 else 1)
        scores = code.define(products, f32, (self.tile.rows, size)) * scale
        seen = across < self.folding.keys if ends else None
        scores = self._masked(scores, across, seen)
        if is_edge and self.is_causal:
            scores = select(across <= self.query + self.folding.ahead, scores, float("-inf"))
        if seen is not None:
            scores = select(seen, scores, float("-inf"))
        v = self._rows_of(2, down, self.v_columns, there)
        self.online.add(scores, v)

    def _rows_of(self, operand: int, rows: Value, columns: Value, there: Value | None) -> Value:
        """A block of keys or values."""
        buffer = self.step.operand(operand)
        with ExitStack() as masks:
            self._enter(masks, there, self._within(columns, operand))
            places = [self.image, self.key_head, rows, columns]
            where = offset(self.code, places, buffer.strides)
            return self.kernel.pointer(buffer).load(where)

    def _masked(self, scores: Value, key: Value, seen: Value | None) -> Value:
        """Scores with the mask that is given, if one is."""
        if self.mask is None:
            return scores
        shape = (*self.step.outs[0].type.shape[:3], self.folding.keys)
        strides = strides_within(self.mask, shape)
        with ExitStack() as masks:
            self._enter(masks, self.inside, seen)
            given = load(self.kernel, self.mask, [*self.place, key], strides)
        if given.dtype is boolean:
            return select(given, scores, float("-inf"))
        return scores + convert(given, f32)

    def _combine(self) -> None:
        """Have the last program of those that share keys write the results."""
        code, shares, online = self.code, self.tile.shares, self.online
        memory = self.kernel.scratch(0, f32)
        first = code.named(self.group * (shares * online.room))
        with ExitStack() as masks:
            self._enter(masks, self.inside)
            own = code.named(first + code.program(1) * online.room)
            online.store(memory, self.row, self.v_columns, own)
        with last_program(self.kernel, self.group, self.groups, shares):
            with ExitStack() as masks:
                self._enter(masks, self.inside)
                result = online.combined(memory, self.row, self.v_columns, first, shares)
            self._write(result)

    def _write(self, result: Value) -> None:
        with ExitStack() as masks:
            self._enter(masks, self.inside, self._within(self.v_columns, 2))
            write_result(self.kernel, result, [*self.place, self.v_columns])
