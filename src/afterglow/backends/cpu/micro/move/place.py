"""Where moved elements go: to memory as they are, or through the steps after the move."""

from __future__ import annotations

from typing import Protocol

from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    concat,
    constant_vector,
    convert,
    load_masked,
    part,
    store_masked,
)
from afterglow.backends.cpu.micro.fusion import Sink, SinkRow
from afterglow.backends.cpu.micro.move.blocks import powers
from afterglow.backends.cpu.micro.rows import Row
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import boolean


class ResultRow(Protocol):
    """One row of a result."""

    @property
    def takes_masks(self) -> bool:
        """Whether it is best written under a mask, rather than in pieces."""

    def put(self, column: Index, value: Value, count: int) -> None:
        """Write the first `count` lanes to neighbouring columns."""

    def put_masked(self, column: Index, value: Value, mask: Value) -> None:
        """Write neighbouring columns where the mask holds."""


class ResultPlace(Protocol):
    """A result that rows are written to."""

    def at(self, offset: Index) -> ResultRow:
        """The row that begins there."""


@dataclass(frozen=True)
class MemoryPlace:
    """A result in memory; rows are given by their offset in elements."""

    pointer: Pointer
    stride: int

    def at(self, offset: Index) -> MemoryLine:
        """The row that begins there."""
        return MemoryLine(Row(self.pointer + offset, self.stride))


@dataclass(frozen=True)
class MemoryLine:
    """One row of a result in memory."""

    row: Row

    @property
    def takes_masks(self) -> bool:
        """Whether the machine has masks for all types."""
        return has_masks(self.row.pointer)

    def put(self, column: Index, value: Value, count: int) -> None:
        """Write the first `count` lanes to neighbouring columns, as what the memory holds."""
        value = convert(value, self.row.pointer.dtype)
        if count == value.lanes:
            self.row.store(value, column)
        elif self.row.stride == 1 and has_masks(self.row.pointer):
            place = self.row.pointer + column
            store_masked(place, value, _first(place, count, value.lanes))
        else:
            for start, lanes in powers(count):
                self.row.store(part(value, start, lanes), column + start)

    def put_masked(self, column: Index, value: Value, mask: Value) -> None:
        """Write neighbouring columns where the mask holds."""
        self.row.store(convert(value, self.row.pointer.dtype), column, mask)


@dataclass(frozen=True)
class Fused:
    """A result that other steps work on; rows by their number."""

    sink: Sink

    def at(self, offset: Index) -> FusedLine:
        """The row of that number."""
        return FusedLine(self.sink.row(offset))


@dataclass(frozen=True)
class FusedLine:
    """One row of a result that other steps work on."""

    row: SinkRow

    @property
    def takes_masks(self) -> bool:
        """Always: the steps are written only once then."""
        return True

    def put(self, column: Index, value: Value, count: int) -> None:
        """Put the first `count` lanes into neighbouring columns."""
        whole = count == value.lanes
        self.row.put(column, value, None if whole else _first(value, count, value.lanes))

    def put_masked(self, column: Index, value: Value, mask: Value) -> None:
        """Put neighbouring columns where the mask holds."""
        self.row.put(column, value, mask)


def load_first(row: Row, column: Index, count: int, lanes: int) -> Value:
    """The first `count` lanes of a vector from memory; the others are undefined."""
    if count == lanes:
        return row.load(column, lanes).splat(lanes)
    if row.stride == 1 and has_masks(row.pointer):
        return load_masked(row.pointer + column, _first(row.pointer, count, lanes))
    pieces = [row.load(column + start, width).splat(width) for start, width in powers(count)]
    missing = lanes - sum(piece.lanes for piece in pieces)
    return concat(*pieces, pieces[-1].lane(0).splat(missing))


def _first(of: Pointer | Value, count: int, lanes: int) -> Value:
    """The condition that holds in the first lanes."""
    return constant_vector(of.code, boolean, [lane < count for lane in range(lanes)])


def has_masks(pointer: Pointer) -> bool:
    """Whether the machine reads and writes elements of any type under a mask."""
    return pointer.code.target.avx512
