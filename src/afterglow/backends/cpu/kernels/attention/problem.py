"""The problem of an attention: its extents, and where its operands are in memory."""

from __future__ import annotations

from collections.abc import Callable

from afterglow.backends.broadcast import strides_within
from afterglow.backends.cpu.llvm.emitter import Index, Pointer, Value
from afterglow.backends.cpu.micro.cost import work_of
from afterglow.backends.cpu.micro.fusion import Sink, SinkRow
from afterglow.backends.cpu.micro.lanes import full_lanes
from afterglow.backends.cpu.micro.rows import split
from afterglow.backends.cpu.micro.tile import sum_type
from afterglow.backends.cpu.target import Target
from afterglow.instr import Buffer, OpInstr
from afterglow.ops.attention_scores import WeighsKeys
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType, boolean
from afterglow.types.extent import is_ranged, undecided

LOG2_E = 1.4426950408889634

Scratch = Callable[[str], Pointer]
"""Gives the memory of a thread, by its name."""
Results = Callable[[Index], SinkRow]
"""Gives a row of the result, by its number from some row on."""


@dataclass(frozen=True)
class Heads:
    """An operand [batch, heads, rows, columns], broadcast to it if it is a mask.

    `sharing` heads of the queries, one after the other, have the same head of it.
    """

    buffer: Buffer
    strides: tuple[int, ...]
    sharing: int = 1

    @property
    def row_stride(self) -> int:
        """How far apart rows lie."""
        return self.strides[2]

    @property
    def column_stride(self) -> int:
        """How far apart the elements of a row lie."""
        return self.strides[3]

    def at(self, pointer: Pointer, batch: Index, head: Index) -> Pointer:
        """Where a head of the queries finds its matrix."""
        if self.sharing > 1:
            head, _ = split(head, self.sharing)
        return pointer + batch * self.strides[0] + head * self.strides[1]


@dataclass(frozen=True)
class AttentionProblem:
    """`batch * heads` times softmax(scale q kᵀ + mask) v."""

    batch: int
    heads: int
    queries: int
    keys: int
    width: int
    value_width: int
    scale: float
    causal: bool
    q: Heads
    k: Heads
    v: Heads
    mask: Heads | None

    @property
    def dtype(self) -> DType:
        """The element type of the operands but for a boolean mask."""
        return self.q.buffer.type.dtype

    @property
    def work(self) -> float:
        """Multiplications and additions; of ranged extents, an expression."""
        scores = self.batch * self.heads * self.queries * self.keys
        return work_of(scores, 2 * (self.width + self.value_width + 8))

    def results(self, sink: Sink, batch: Index, head: Index, first: Value) -> Results:
        """The rows of the result that belong to the queries of a head from some query on."""
        if is_ranged(self.queries):
            return lambda row: sink.row_at((batch, head, first + row))
        number = (batch * self.heads + head) * self.queries + first
        return lambda row: sink.row(number + row)

    @property
    def adds_mask(self) -> bool:
        """Whether the mask is a number to add."""
        return self.mask is not None and self.mask.buffer.type.dtype is not boolean

    @property
    def has_own_masks(self) -> bool:
        """Whether there is a mask that differs between queries."""
        return self.mask is not None and self.mask.row_stride != 0

    @property
    def score_scale(self) -> float:
        """The factor of q kᵀ.

        Scores are powers of 2 rather than of e unless a mask is added: its numbers may be so large
        that only they themselves are finite.
        """
        return self.scale if self.adds_mask else self.scale * LOG2_E

    @property
    def score_unit(self) -> float:
        """What makes powers of 2 of scores."""
        return LOG2_E if self.adds_mask else 1.0


def lanes_of(problem: AttentionProblem, target: Target) -> int:
    """Elements of a vector of scores."""
    return full_lanes(target, sum_type(problem.dtype))


def problem_of(step: OpInstr) -> AttentionProblem:
    """The problem that a step states."""
    op = step.op
    assert isinstance(op, WeighsKeys)
    (q, k, v), mask = step.required[:3], step.optional(op.operand_names.index("mask"))
    batch, heads, queries, width = q.type.shape
    keys, value_width = v.type.shape[2:]
    for extent in (width, value_width):
        if is_ranged(extent):
            raise undecided("how wide the heads of an attention are", extent)
    sharing = heads // k.type.shape[1]
    scores = (batch, heads, queries, keys)
    return AttentionProblem(
        *scores,
        width,
        value_width,
        op.scale,
        op.causal,
        Heads(q, q.strides),
        Heads(k, k.strides, sharing),
        Heads(v, v.strides, sharing),
        None if mask is None else Heads(mask, strides_within(mask, scores)),
    )
