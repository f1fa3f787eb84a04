"""Attention of tokens of several sequences over caches of their keys and values.

Where there are few tokens, a program has one of them: the heads that share its keys are rows.
Where there are many, it has a block of tokens, and goes through each sequence that these are of.
"""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.backends.cuda.kernels.attention_plan import (
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
from afterglow.backends.cuda.tl.code import offset
from afterglow.backends.items.gather import in_range
from afterglow.backends.job import Job
from afterglow.backends.pointwise.vocabulary import call, convert, select
from afterglow.instr import KernelPlan, OpInstr
from afterglow.ops.cached_attention import CachedAttention
from afterglow.types.dtype import bf16, f16, f32, i8

_WIDEST = 256
_FEW = 4
"""Tokens of a sequence, on the average, of which each has programs of its own."""


def _accepts(step: OpInstr, target: CudaTarget) -> bool:
    query, keys, values = (step.operand(i).type for i in range(3))
    held = query.dtype in (f16, bf16, f32) and keys.dtype in (f16, bf16, f32, i8)
    narrow = max(query.shape[2], values.shape[3]) <= _WIDEST
    return held and narrow and step.predicate is None


def _has_few_tokens(step: OpInstr) -> bool:
    tokens, sequences = step.operand(0).type.shape[0], step.operand(1).type.shape[0]
    return tokens <= _FEW * sequences


def _plans(job: Job, target: CudaTarget) -> Sequence[KernelPlan]:
    step = job.anchor
    assert step is not None
    query, keys, values = (step.operand(i).type for i in range(3))
    tokens, heads, width = query.shape
    shared, context = keys.shape[1:3]
    moved = sum(buffer.type.nbytes for buffer in job.buffers)
    few = _has_few_tokens(step)
    extents = AttentionExtents(
        tokens * shared if few else heads,
        heads // shared if few else tokens,
        context,
        width,
        values.shape[3],
        query.dtype,
        moved,
        1.0 if few else 0.99,
    )
    return attention_plans(extents, target)


@ANCHORS.declare(CachedAttention, accepts=_accepts, plans=_plans)
def write_cached_attention(job: Job, target: CudaTarget, plan: KernelPlan) -> KernelSource:
    """Tokens by blocks of the rows of their sequences."""
    kernel = Kernel(job, target)
    tile = AttentionTile.of(plan)
    kernel.warps, kernel.stages, kernel.fuses = tile.warps, tile.stages, True
    (_OneToken if _has_few_tokens(kernel.step) else _ManyTokens)(kernel, tile).write()
    return kernel.finish()


class _Tokens(QueryRows):
    """The queries of one token or of several."""

    position: Value
    """Of each row, or of all."""
    key_head: Value
    """Of the caches."""

    def __init__(self, kernel: Kernel, tile: AttentionTile) -> None:
        step = kernel.step
        assert isinstance(step.op, CachedAttention)
        self.op = step.op
        self.tokens, self.heads = step.operand(0).type.shape[:2]
        self.shared, self.context = step.operand(1).type.shape[1:3]
        super().__init__(kernel, tile, is_log2=True, keeps_weights=_has_few_tokens(step))

    def _known(self, operand: int, token: Value, allowed: str) -> Value:
        """The sequence or position of tokens."""
        given = self.kernel.pointer(self.step.operand(operand)).load(token)
        return in_range(self.kernel, allowed, given)

    def _take(self, start: Value, sequence: Value, end: Value, seen: Value | None) -> None:
        """A block of the rows of a sequence, before an end; `seen` by which queries."""
        code, size = self.code, self.tile.keys
        key = code.named(start + code.range(size))
        down, across = code.along(key, 0, 2), code.along(key, 1, 2)
        scores = self.scores_of(self._rows_of(1, sequence, down, end))
        factors = self._scales(5, sequence, across, end)
        scores = scores * self.op.scale if factors is None else scores * (factors * self.op.scale)
        if self.op.softcap:
            scores = call("tanh", scores / self.op.softcap) * self.op.softcap
        is_seen = across <= self.position
        if self.op.window:
            is_seen = is_seen & (across > self.position - self.op.window)
        is_seen = is_seen if seen is None else is_seen & seen
        scores = select(is_seen, scores * LOG2_E, float("-inf"))
        v = self._rows_of(2, sequence, down, end)
        self.online.add(scores, v, self._scales(6, sequence, across, end))

    def _rows_of(self, operand: int, sequence: Value, rows: Value, end: Value) -> Value:
        """A block of a cache, as what queries hold."""
        columns = self.q_columns if operand == 1 else self.v_columns
        places = [sequence, self.key_head, rows, columns]
        return convert(self.load(self.step.operand(operand), places, rows < end), self.q.dtype)

    def _scales(self, operand: int, sequence: Value, keys: Value, end: Value) -> Value | None:
        """What bytes of the cache are multiplied by."""
        buffer = self.step.optional(operand)
        if buffer is None:
            return None
        places = [sequence, self.key_head, keys]
        with self.code.when(keys < end):
            where = offset(self.code, places, buffer.strides[:3])
            return self.kernel.numbers(buffer).load(where)

    def _first_seen(self, position: Value) -> Value:
        """The first block that a query sees some of, if it does not see all before it."""
        first = position + (1 - self.op.window)
        text = f"tl.maximum({first.text}, 0) // {self.tile.keys} * {self.tile.keys}"
        return self.code.as_index(self.code.define(text, self.code.index_type, first.shape))


class _OneToken(_Tokens):
    """A token of a program, or of several that share its keys: the heads of a group are rows."""

    def find_place(self) -> None:
        """See the base."""
        code, rows = self.code, self.heads // self.shared
        tokens, blocks = self.tokens, -(-rows // self.tile.rows)
        self.groups = tokens * self.shared * blocks
        self.kernel.grid = (self.groups, self.tile.shares, 1)
        block = code.named(self.group.combined("%", blocks))
        rest = code.named(self.group.combined("/", blocks))
        self.key_head = code.named(rest.combined("%", self.shared))
        token = code.named(rest.combined("/", self.shared))
        row = code.named(block * self.tile.rows + self.row)
        self.inside = row < rows if rows % self.tile.rows else None
        self.place = [token, code.named(self.key_head * rows + row)]
        self.position = self._known(3, token, "positions")
        self.sequence = self._known(4, token, "sequences")

    def take_all(self) -> None:
        """The rows of its sequence, or a share of these."""
        code, size, shares = self.code, self.tile.keys, self.tile.shares
        end: Value = code.named(self.position + 1)
        first = self._first_seen(self.position) if self.op.window else code.index(0)
        start = first
        if shares > 1:
            blocks = ((end - first) + (shares * size - 1)).combined("/", shares * size)
            each = code.named(blocks * size)
            start = code.named(first + code.program(1) * each)
            end = code.smaller(start + each, end)
        with code.loop(end, start, size) as key:
            self._take(key, self.sequence, end, None)


class _ManyTokens(_Tokens):
    """A block of tokens, of one head."""

    def find_place(self) -> None:
        """See the base."""
        code, tokens = self.code, self.tokens
        blocks = -(-tokens // self.tile.rows)
        self.groups = blocks * self.heads
        self.kernel.grid = (self.groups, 1, 1)
        block = code.named(self.group.combined("%", blocks))
        head = code.named(self.group.combined("/", blocks))
        self.key_head = code.named(head.combined("/", self.heads // self.shared))
        row = code.named(block * self.tile.rows + self.row)
        self.inside = row < tokens if tokens % self.tile.rows else None
        self.place = [row, head]
        # rows behind the last token stand for the last one: what they find is not written
        token = code.smaller(row, tokens - 1)
        self.position = self._known(3, token, "positions")
        self.sequence = self._known(4, token, "sequences")

    def take_all(self) -> None:
        """Those of each sequence in turn."""
        code = self.code
        first, last = self._extreme("min", self.sequence), self._extreme("max", self.sequence)
        with code.loop(code.named(last + 1), first) as number:
            own = self.sequence.combined("==", number)
            end = self._extreme("max", select(own, self.position + 1, 0))
            start: Value | int = 0
            if self.op.window:
                start = self._extreme(
                    "min", select(own, self._first_seen(self.position), self.context)
                )
            with code.loop(end, start, self.tile.keys) as key:
                self._take(key, number, end, own)

    def _extreme(self, function: str, values: Value) -> Value:
        found = self.code.define(f"tl.{function}({values.text})", self.code.index_type)
        return self.code.as_index(found)
