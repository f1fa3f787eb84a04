"""Moves of elements that are looked up: an index says where along an axis the operand's lies."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    Index,
    Pointer,
    Value,
    any_lane,
    differ,
    gather,
    lane_numbers,
)
from afterglow.backends.cpu.micro.cost import GATHERED_ELEMENT, MOVED_BYTE, work_of
from afterglow.backends.cpu.micro.index_check import IndexCheck
from afterglow.backends.cpu.micro.kernel import Kernel, Phase
from afterglow.backends.cpu.micro.lanes import fitting_lanes
from afterglow.backends.cpu.micro.move.axes import MoveCut, StridedMove
from afterglow.backends.cpu.micro.move.blocks import Blocks, write_powers
from afterglow.backends.cpu.micro.move.place import ResultRow, load_first
from afterglow.backends.cpu.micro.move.write import (
    Loops,
    choose_method,
    lanes_of,
    operand_of,
    place_of,
)
from afterglow.backends.cpu.micro.rows import Row
from afterglow.instr import Buffer
from afterglow.support.lazy_dataclass import dataclass

BLOCK = 1024
"""Elements of a row that are looked up one by one, in one piece at most."""


@dataclass(frozen=True)
class Term:
    """One index of a tuple: its offset in the tuple, and its stride in the operand."""

    at: int
    stride: int


class IndexTuples:
    """The indices of the anchor, each a tuple of terms."""

    def __init__(self, p: Phase, indices: Buffer, terms: Sequence[Term]) -> None:
        self.pointer, self.terms = p.pointer(indices), terms
        self.check = IndexCheck(p, "indices")

    def place(self, offset: Index, stride: int = 0, lanes: int = 1) -> Index:
        """Where the elements lie to which tuples of indices point; tuples are `stride` apart."""
        total: Index = 0
        for part, term in enumerate(self.terms):
            index = self._load(offset, term, stride, lanes)
            total = self.check.place(index, part) * term.stride + total
        return total

    def find(self, offset: Index, stride: int, lanes: int, stray: Value) -> tuple[Index, Value]:
        """The same without an alarm: `stray` with bits where an index is out of range."""
        total: Index = 0
        for part, term in enumerate(self.terms):
            near, off = self.check.find(self._load(offset, term, stride, lanes), part)
            total, stray = near * term.stride + total, stray | off
        return total, stray

    def _load(self, offset: Index, term: Term, stride: int, lanes: int) -> Value:
        return load_first(Row(self.pointer + offset + term.at, stride), 0, lanes, lanes)


class GatherRows:
    """Rows whose elements are looked up one by one."""

    def __init__(self, lanes: int, move: StridedMove) -> None:
        self.index_stride, self.source = move.index_strides[-1], move.source[-1]
        extent = move.extents[-1]
        self.lanes = fitting_lanes(lanes, extent)
        self.blocks = Blocks(extent, self.lanes, max(1, BLOCK // self.lanes) * self.lanes)
        self.cut = MoveCut(self.blocks.count, self.blocks.most)

    def write(
        self,
        e: Emitter,
        line: ResultRow,
        piece: Index,
        source: Pointer,
        tuples: IndexTuples,
        at: Index,
    ) -> None:
        """Look up a block of one row, whose indices begin at `at`."""

        def move(column: Index, places: Index, lanes: int) -> None:
            line.put(column, self._gathered(e, source, column, places, lanes), lanes)

        def look_up(column: Index, lanes: int) -> None:
            offset = at + column * self.index_stride
            move(column, tuples.place(offset, self.index_stride, lanes), lanes)

        def rest(start: Index, left: Index) -> None:
            write_powers(e, start, left, self.lanes, look_up)

        def step(column: Value, carried: list[Value]) -> list[Value]:
            offset = at + column * self.index_stride
            places, stray = tuples.find(offset, self.index_stride, self.lanes, carried[0])
            move(column, places, self.lanes)
            return [stray]

        if self.lanes == 1 or not tuples.check.raises:
            self.blocks.write(e, piece, lambda column: look_up(column, self.lanes), rest)
            return
        # A branch in the loop would make each look-up wait for the one before.
        start, stop = self.blocks.bounds(e, piece)
        none = tuples.check.nothing(self.lanes)
        (stray,) = e.fold(stop, [none], step, start=start, step=self.lanes)
        with e.when(any_lane(differ(stray, 0)), likely=False), e.loop(stop, start=start) as column:
            tuples.place(at + column * self.index_stride)
        self.blocks.write_rest(e, piece, rest)

    def _gathered(
        self, e: Emitter, source: Pointer, column: Index, places: Index, lanes: int
    ) -> Value:
        """The elements that indices point to, for neighbouring columns."""
        offsets = e.index(places)
        if self.source != 0:
            offsets = offsets + lane_numbers(e, e.index_type, lanes, self.source)
        return gather(source + column * self.source, offsets.splat(lanes))


def write_gathered(
    kernel: Kernel, operand: Buffer, indices: Buffer, move: StridedMove, terms: Sequence[Term]
) -> None:
    """Write the kernel that moves what indices point to, to the result of the anchor."""
    plain, dtype = not kernel.job.after, operand.type.dtype
    move = move.in_memory() if plain else move.by_rows()
    if move.index_strides[-1]:
        _write_elements(kernel, operand, indices, move, terms)
        return
    method, inner = choose_method(move, lanes_of(kernel), dtype, plain)
    loops = Loops(move.extents, [move.to, move.source, move.index_strides], method.cut, inner)
    with kernel.phase(loops.units, work_of(move.size, dtype.itemsize * MOVED_BYTE)) as p:
        out, source = place_of(p, move.to[-1]), operand_of(p, p.pointer(operand))
        tuples = IndexTuples(p, indices, terms)

        def leaf(piece: Index, offsets: list[Index]) -> None:
            """Move a piece of what an index points to."""
            to, start, at = offsets
            place = source + start + tuples.place(at)
            method.write(p.e, out, piece, to, place)

        with p.units() as unit:
            loops.write(p.e, unit, leaf)


def _write_elements(
    kernel: Kernel, operand: Buffer, indices: Buffer, move: StridedMove, terms: Sequence[Term]
) -> None:
    """One element a lane, each looked up on its own."""
    lanes = max(1, kernel.target.vector_bits // 64)
    method = GatherRows(min(lanes, lanes_of(kernel)), move)
    strides = [move.to, move.source, move.index_strides]
    loops = Loops(move.extents, strides, method.cut, [len(move.extents) - 1])
    with kernel.phase(loops.units, work_of(move.size, GATHERED_ELEMENT)) as p:
        out, source = place_of(p, move.to[-1]), operand_of(p, p.pointer(operand))
        tuples = IndexTuples(p, indices, terms)

        def leaf(piece: Index, offsets: list[Index]) -> None:
            """Look up a piece of a row."""
            to, start, at = offsets
            method.write(p.e, out.at(to), piece, source + start, tuples, at)

        with p.units() as unit:
            loops.write(p.e, unit, leaf)
