"""Fusion: prologues and epilogues of an anchor, computed on values in registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from afterglow.backends.broadcast import Strides, chain_strides, strides_within
from afterglow.backends.cpu.llvm.emitter import Index, Value, convert, rounded_result
from afterglow.backends.cpu.micro.rows import Row, Rows
from afterglow.backends.cpu.pointwise import compute
from afterglow.instr import Buffer, OpInstr, Region
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType, f32

if TYPE_CHECKING:
    from afterglow.backends.cpu.micro.kernel import Phase


class Chain:
    """Element-wise steps on elements of one shape; what they read and write, by rows.

    `given` are buffers whose values come from elsewhere. The shape may be any in which all the
    buffers have strides: `merged` says which, instead of those of their own.
    """

    def __init__(
        self,
        phase: Phase,
        steps: Sequence[OpInstr],
        shape: Sequence[int],
        given: Sequence[Buffer],
        stored: Sequence[Buffer],
        merged: Mapping[Buffer, Strides] | None = None,
    ) -> None:
        self.steps = steps
        strides = merged or chain_strides(steps, shape)
        made = {*given, *(out for step in steps for out in step.outs)}
        read = [b for step in steps for b in step.ins if b is not None and b not in made]
        self.read = {b: Rows(phase.pointer(b), shape, strides[b]) for b in dict.fromkeys(read)}
        # loaded there, since in a loop nothing tells that what is stored leaves them alone
        with phase.e.at_entry():
            self.scalars = {b: phase.pointer(b).load() for b in self.read if _is_known_scalar(b)}
        self.written = {
            b: Rows(phase.pointer(b), shape, strides.get(b) or strides_within(b, shape))
            for b in stored
        }

    def row(self, number: Index) -> ChainRow:
        """One row of all of them."""
        return ChainRow(
            self,
            {b: rows.row(number) for b, rows in self.read.items()},
            {b: rows.row(number) for b, rows in self.written.items()},
        )

    def row_at(self, place: Sequence[Index]) -> ChainRow:
        """One row of all of them, by its index along each axis but the last."""
        return ChainRow(
            self,
            {b: rows.row_at(place) for b, rows in self.read.items()},
            {b: rows.row_at(place) for b, rows in self.written.items()},
        )


def _is_known_scalar(buffer: Buffer) -> bool:
    return buffer.root.region is Region.CONSTANT and buffer.type.size == 1


@dataclass(frozen=True)
class ChainRow:
    """One row on which a chain works."""

    chain: Chain
    read: Mapping[Buffer, Row]
    written: Mapping[Buffer, Row]

    def run(
        self, given: Mapping[Buffer, Value], column: Index, lanes: int, mask: Value | None
    ) -> dict[Buffer, Value]:
        """Compute the steps on neighbouring columns, write what is stored, return all values.

        Narrow floats stay in f32 from step to step: they are rounded where they are stored, or
        read as another type.
        """
        values = dict(given)
        for step in self.chain.steps:
            self._compute(step, values, column, lanes, mask)
        for buffer, row in self.written.items():
            row.store(as_declared(values[buffer], buffer).splat(lanes), column, mask)
        return values

    def last_operands(self, column: Index, lanes: int, mask: Value | None) -> list[Value]:
        """What the last step takes, of which all operands are given: its result is not computed."""
        values: dict[Buffer, Value] = {}
        *steps, last = self.chain.steps
        for step in steps:
            self._compute(step, values, column, lanes, mask)
        buffers = [buffer for buffer in last.ins if buffer is not None]
        return [self._value(buffer, values, column, lanes, mask) for buffer in buffers]

    def _compute(
        self,
        step: OpInstr,
        values: dict[Buffer, Value],
        column: Index,
        lanes: int,
        mask: Value | None,
    ) -> None:
        """Add the result of a step to the values that are known."""
        operands = [
            None if b is None else self._value(b, values, column, lanes, mask) for b in step.ins
        ]
        dtype = step.outs[0].type.dtype
        if not dtype.is_narrow_float or step.op.moves_only:
            operands = [
                x if x is None or b is None else as_declared(x, b)
                for x, b in zip(operands, step.ins, strict=True)
            ]
        else:
            dtype = f32
        values[step.outs[0]] = compute(step.op, dtype, operands)

    def _value(
        self,
        buffer: Buffer,
        values: dict[Buffer, Value],
        column: Index,
        lanes: int,
        mask: Value | None,
    ) -> Value:
        if buffer in self.chain.scalars:
            return self.chain.scalars[buffer].splat(lanes)
        if buffer not in values:
            loaded = self.read[buffer].load(column, lanes, mask)
            values[buffer] = loaded.splat(lanes)
        return values[buffer]


def as_declared(value: Value, buffer: Buffer) -> Value:
    """A value in the type of its buffer, if it was computed in a wider one."""
    dtype = buffer.type.dtype
    return rounded_result(value, dtype) if dtype.is_narrow_float and value.dtype is f32 else value


class Sink:
    """A result of an anchor: values put there go through the steps after it, then to memory.

    Rows are numbered through all axes but the last, in order. Each element is put exactly once.
    """

    def __init__(self, phase: Phase, result: int) -> None:
        job, self.buffer = phase.kernel.job, phase.step.outs[result]
        shape = self.buffer.type.shape or (1,)
        steps = job.after if result == 0 else ()
        outs = [self.buffer, *(out for step in steps for out in step.outs)]
        stored = [b for b in outs if b not in job.locals]
        self.chain = Chain(phase, steps, shape, [self.buffer], stored)

    @property
    def dtype(self) -> DType:
        """The element type of the anchor's result."""
        return self.buffer.type.dtype

    @property
    def is_plain(self) -> bool:
        """Whether values go to memory as they are."""
        return not self.chain.steps

    def row(self, number: Index) -> SinkRow:
        """One row; ask for it before the loop over its columns."""
        return SinkRow(self, self.chain.row(number))

    def row_at(self, place: Sequence[Index]) -> SinkRow:
        """One row, by its index along each axis but the last.

        That is faster than its number where extents are ranged, since they are no constants to
        divide by.
        """
        return SinkRow(self, self.chain.row_at(place))


@dataclass(frozen=True)
class SinkRow:
    """One row of a result."""

    sink: Sink
    row: ChainRow

    def put(self, column: Index, value: Value, mask: Value | None = None) -> None:
        """Results at neighbouring columns, one a lane, where the mask holds.

        A value of another type is converted to that of the result, as `convert` does it.
        """
        dtype = self.sink.dtype
        exact = value.dtype is dtype or (dtype.is_narrow_float and value.dtype is f32)
        made = value if exact else convert(value, dtype)
        self.row.run({self.sink.buffer: made}, column, made.lanes, mask)


class Source:
    """An operand of an anchor, computed by the steps before it as it is read."""

    def __init__(self, phase: Phase, anchor: OpInstr, operand: int) -> None:
        job, buffer = phase.kernel.job, anchor.operand(operand)
        self.buffer = buffer
        shape = buffer.type.shape or (1,)
        steps = _leading_to(buffer, job.before)
        self.chain = Chain(phase, steps, shape, [], [])
        self.rows = (
            None if steps else Rows(phase.pointer(buffer), shape, strides_within(buffer, shape))
        )

    @property
    def dtype(self) -> DType:
        """The element type of what is read."""
        return self.buffer.type.dtype

    @property
    def is_plain(self) -> bool:
        """Whether the operand lies in memory as it is."""
        return self.rows is not None

    def row(self, number: Index) -> SourceRow:
        """One row; ask for it before the loop over its columns."""
        plain = None if self.rows is None else self.rows.row(number)
        return SourceRow(self, self.chain.row(number), plain)


@dataclass(frozen=True)
class SourceRow:
    """One row of an operand."""

    source: Source
    row: ChainRow
    plain: Row | None

    def load(self, column: Index, lanes: int = 1, mask: Value | None = None) -> Value:
        """Neighbouring elements, where the mask holds."""
        if self.plain is not None:
            return self.plain.load(column, lanes, mask).splat(lanes)
        return as_declared(
            self.row.run({}, column, lanes, mask)[self.source.buffer], self.source.buffer
        )


def _leading_to(buffer: Buffer, before: Sequence[OpInstr]) -> tuple[OpInstr, ...]:
    """The steps that a buffer follows from."""
    needed, found = {buffer}, []
    for step in reversed(before):
        if needed.intersection(step.outs):
            found.append(step)
            needed.update(b for b in step.ins if b is not None)
    return tuple(reversed(found))
