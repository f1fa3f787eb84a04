"""Readers and writers of kernels that walk lines: operands and results as rows of another shape.

The steps before the anchor compute what is read, the steps after it work on what is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from afterglow.backends.broadcast import Strides, chain_strides, strides_within
from afterglow.backends.cpu.llvm.emitter import Index, Value, convert
from afterglow.backends.cpu.micro.fusion import Chain, ChainRow, as_declared
from afterglow.backends.cpu.micro.kernel import KernelRequest, Phase
from afterglow.backends.cpu.micro.lanes import full_lanes
from afterglow.backends.cpu.micro.layout import Placed, lay_out
from afterglow.backends.cpu.micro.reduction_lines import (
    ReductionLines,
    arithmetic_type,
    lanes_of,
)
from afterglow.backends.cpu.micro.rows import Rows
from afterglow.instr import Buffer
from afterglow.support.lazy_dataclass import dataclass


class RowReader(Protocol):
    """One row of an operand."""

    def load(self, column: Index, lanes: int, mask: Value | None = None) -> Value:
        """Neighbouring columns, where the mask holds; perhaps a scalar for all of them."""


class Reader(Protocol):
    """An operand that is read by rows."""

    def row(self, number: Index) -> RowReader:
        """One row."""


@dataclass(frozen=True)
class ChainReader:
    """An operand that element-wise steps compute while it is read."""

    chain: Chain
    buffer: Buffer

    def row(self, number: Index) -> RowReader:
        """One row."""
        return _ComputedRow(self.chain.row(number), self.buffer)


@dataclass(frozen=True)
class _ComputedRow:
    row: ChainRow
    buffer: Buffer

    def load(self, column: Index, lanes: int, mask: Value | None = None) -> Value:
        return as_declared(self.row.run({}, column, lanes, mask)[self.buffer], self.buffer)


@dataclass(frozen=True)
class Writer:
    """A result, with the element-wise steps that follow it."""

    chain: Chain
    buffer: Buffer

    def row(self, number: Index) -> RowWriter:
        """One row."""
        return RowWriter(self.chain.row(number), self.buffer)


@dataclass(frozen=True)
class RowWriter:
    """One row of a result."""

    row: ChainRow
    buffer: Buffer

    def put(self, column: Index, value: Value, mask: Value | None = None) -> None:
        """Results at neighbouring columns, where the mask holds."""
        made = convert(value, self.buffer.type.dtype)
        self.row.run({self.buffer: made}, column, made.lanes, mask)


def placed_source(r: KernelRequest) -> dict[Buffer, Strides]:
    """The strides, in its shape, of what must be read to have the first operand."""
    job, x = r.job, r.step.required[0]
    shape = x.type.shape
    if not job.before:
        return {x: strides_within(x, shape)}
    strides = chain_strides(job.before, shape)
    return {b: s for b, s in strides.items() if b not in job.locals}


def placed_sink(r: KernelRequest) -> dict[Buffer, Strides]:
    """The strides, in its shape, of all that is touched when the first result is written."""
    job, result = r.job, r.step.outs[0]
    shape = result.type.shape
    strides = {result: strides_within(result, shape), **chain_strides(job.after, shape)}
    return {b: s for b, s in strides.items() if b not in job.locals}


def open_source(p: Phase, shape: Sequence[int], placed: Placed) -> Reader:
    """The first operand of the anchor, by rows of a shape in which all that is read is placed."""
    job, x = p.kernel.job, p.step.required[0]
    if not job.before:
        return Rows(p.pointer(x), shape, placed[x])
    return ChainReader(Chain(p, job.before, shape, [], [], placed), x)


def open_sink(p: Phase, shape: Sequence[int], placed: Placed) -> Writer:
    """The first result of the anchor, by rows of a shape."""
    job, result = p.kernel.job, p.step.outs[0]
    outs = [result, *(out for step in job.after for out in step.outs)]
    stored = [b for b in outs if b not in job.locals]
    return Writer(Chain(p, job.after, shape, [result], stored, placed), result)


def lines_along(k: KernelRequest, axis: int) -> ReductionLines:
    """The lines along one axis of the first operand, where results have its shape."""
    x = k.step.required[0]
    shape, dtype = x.type.shape, arithmetic_type(x.type.dtype)
    full = full_lanes(k.target, dtype)
    layout = lay_out(shape, (axis % len(shape),), placed_source(k), placed_sink(k), full)
    return ReductionLines(layout, dtype, lanes_of(k.target, dtype, layout))
