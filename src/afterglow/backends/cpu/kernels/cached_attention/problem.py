"""The problem of an attention over caches: its extents, and how rows of caches are read."""

from __future__ import annotations

from math import gcd

from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    convert,
    gather,
    lane_numbers,
    select,
)
from afterglow.backends.cpu.llvm.math import tanh
from afterglow.backends.cpu.micro.cost import work_of
from afterglow.backends.cpu.micro.kernel import Phase
from afterglow.backends.cpu.micro.lanes import full_lanes
from afterglow.backends.cpu.micro.rows import Row
from afterglow.backends.cpu.micro.tile import sum_type
from afterglow.backends.cpu.target import Target
from afterglow.instr import Buffer, OpInstr
from afterglow.ops.cached_attention import CachedAttention
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType

LOG2_E = 1.4426950408889634
BLOCK = 128
"""Positions whose scores are computed at a time: keys and values stay in the first two caches."""


@dataclass(frozen=True)
class CacheProblem:
    """`tokens` queries with `heads` heads each, over caches of `shared` heads."""

    step: OpInstr
    op: CachedAttention
    tokens: int
    heads: int
    shared: int
    width: int
    value_width: int
    context: int

    @staticmethod
    def of(step: OpInstr) -> CacheProblem:
        """The problem that a step computes."""
        (tokens, heads, width), keys, values = (b.type.shape for b in step.required[:3])
        assert isinstance(step.op, CachedAttention)
        return CacheProblem(step, step.op, tokens, heads, keys[1], width, values[3], keys[2])

    @property
    def group(self) -> int:
        """Heads of queries that share a head of the caches."""
        return self.heads // self.shared

    @property
    def blocks(self) -> int:
        """Blocks of positions in the context."""
        return -(-self.context // BLOCK)

    @property
    def dtype(self) -> DType:
        """The type in which everything is computed."""
        return sum_type(self.step.outs[0].type.dtype)

    @property
    def work(self) -> float:
        """About how many FLOPs it takes if the context is half full."""
        flops = self.heads * (self.width + self.value_width) * self.context
        return work_of(self.tokens, flops)

    @property
    def factor(self) -> float:
        """What queries are multiplied by, so that scores are exponents of 2 unless capped."""
        cap = self.op.softcap
        return self.op.scale / cap if cap else self.op.scale * LOG2_E

    def capped(self, score: Value) -> Value:
        """A product of query and key as an exponent of 2."""
        cap = self.op.softcap
        return tanh(score) * (cap * LOG2_E) if cap else score

    def lanes(self, target: Target) -> int:
        """Lanes of vectors along keys and values, which have no rest."""
        return gcd(self.width, self.value_width, full_lanes(target, self.dtype))

    def first(self, position: Value) -> Value:
        """The first position that a token sees."""
        if not self.op.window:
            return position.like(0)
        begin = position + (1 - self.op.window)
        return select(begin < 0, 0, begin)


class CacheRows:
    """The rows of one of the caches, and their scales if there are any."""

    def __init__(self, p: Phase, problem: CacheProblem, operand: str) -> None:
        step, names = p.step, p.step.op.operand_names
        buffer = step.operand(names.index(operand))
        scales = step.optional(names.index("key_scales" if operand == "keys" else "value_scales"))
        self.buffer, self.dtype, self.scales = buffer, problem.dtype, scales
        self.pointer = p.pointer(buffer)
        self.scale_pointer = None if scales is None else p.pointer(scales)

    @property
    def is_plain(self) -> bool:
        """Whether elements in memory are the numbers that are computed with."""
        return self.buffer.type.dtype is self.dtype and self.buffer.strides[3] == 1

    @property
    def stride(self) -> int:
        """How far apart rows lie."""
        return self.buffer.strides[2]

    def head(self, sequence: Index, head: Index) -> HeadRows:
        """The rows of a head of a sequence."""
        scale = None
        if self.scales is not None and self.scale_pointer is not None:
            scale = _at(self.scale_pointer, self.scales, sequence, head)
        return HeadRows(self, _at(self.pointer, self.buffer, sequence, head), scale)


@dataclass(frozen=True)
class HeadRows:
    """The rows of one head of a sequence, by position."""

    rows: CacheRows
    pointer: Pointer
    scale: Pointer | None

    def line(self, position: Index) -> Pointer:
        """Where a row begins."""
        return self.pointer + position * self.rows.stride

    def load(self, line: Pointer, column: Index, lanes: int) -> Value:
        """Neighbouring elements of a row, without its scale."""
        loaded = Row(line, self.rows.buffer.strides[3]).load(column, lanes)
        return convert(loaded, self.rows.dtype).splat(lanes)

    def scales(self, position: Index, lanes: int = 1) -> Value | None:
        """The scales of neighbouring rows, if there are any."""
        if self.scale is None or self.rows.scales is None:
            return None
        return Row(self.scale, self.rows.scales.strides[2]).load(position, lanes)

    def scales_at(self, positions: Value) -> Value | None:
        """The scales of rows anywhere, if there are any."""
        if self.scale is None or self.rows.scales is None:
            return None
        return gather(self.scale, positions * self.rows.scales.strides[2])


def _at(pointer: Pointer, buffer: Buffer, sequence: Index, head: Index) -> Pointer:
    return pointer + sequence * buffer.strides[0] + head * buffer.strides[1]


def positions_from(start: Value, lanes: int) -> Value:
    """A position and those after it, one a lane."""
    return lane_numbers(start.code, start.dtype, lanes) + start
