"""Moves of elements that are looked up: an index says where along an axis the operand's lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from afterglow.backends.cpu.emitter import (
    Emitter,
    Index,
    Pointer,
    Value,
    clamp,
    convert,
    gather,
    lane_numbers,
    select,
)
from afterglow.backends.cpu.kernel import Kernel
from afterglow.backends.cpu.kernels.move.axes import Cut, Move
from afterglow.backends.cpu.kernels.move.blocks import Blocks
from afterglow.backends.cpu.kernels.move.place import Line, load_first, powers
from afterglow.backends.cpu.kernels.move.run import fitting
from afterglow.backends.cpu.kernels.move.write import (
    WORK_OF_BYTE,
    Loops,
    choose_method,
    lanes_of,
    operand_of,
    place_of,
)
from afterglow.backends.cpu.rows import Row
from afterglow.instr import Buffer

BLOCK = 1024
"""Elements of a row that are looked up one by one, in one piece at most."""
WORK_OF_PICK = 16.0
"""FLOPs that looking up one element counts as."""


@dataclass(frozen=True)
class Term:
    """One index of a tuple: how far on it lies, and what it means in the operand."""

    at: int
    extent: int
    stride: int


def place_picked(indices: Pointer, terms: Sequence[Term], stride: int = 0, lanes: int = 1) -> Index:
    """Where the elements lie to which tuples of indices point; tuples are `stride` apart."""
    total: Index = 0
    for term in terms:
        index = load_first(Row(indices + term.at, stride), 0, lanes, lanes)
        total = within(index, term.extent) * term.stride + total
    return total


def within(index: Value, extent: int) -> Value:
    """An index as a count from the front. One that is out of range becomes the nearest that is not.

    Such a program is wrong; it must not read or write the memory of others.
    """
    wide = convert(index, index.code.index_type)
    if index.dtype.is_signed:
        wide = select(wide < 0, wide + extent, wide)
    return clamp(wide, 0, extent - 1)


class Pick:
    """Rows whose elements are looked up one by one."""

    def __init__(self, lanes: int, move: Move, terms: Sequence[Term]) -> None:
        self.terms, self.picks, self.source = terms, move.picks[-1], move.source[-1]
        extent = move.extents[-1]
        self.lanes = fitting(lanes, extent)
        self.blocks = Blocks(extent, self.lanes, max(1, BLOCK // self.lanes) * self.lanes)
        self.cut = Cut(self.blocks.count, min(extent, self.blocks.block))

    def write(self, e: Emitter, line: Line, piece: Index, source: Pointer, picks: Pointer) -> None:
        """Look up a block of one row."""

        def look_up(column: Index, lanes: int) -> None:
            tuples = picks + column * self.picks
            places = e.index(place_picked(tuples, self.terms, self.picks, lanes))
            if self.source:
                places = places + lane_numbers(e, e.index_type, lanes, self.source)
            start = source + column * self.source
            line.put(column, gather(start, places.splat(lanes)), lanes)

        def rest(start: int, left: int) -> None:
            for skipped, lanes in powers(left):
                look_up(start + skipped, lanes)

        self.blocks.write(e, piece, lambda column: look_up(column, self.lanes), rest)


def write_picked(
    kernel: Kernel, operand: Buffer, indices: Buffer, move: Move, terms: Sequence[Term]
) -> None:
    """Write the kernel that moves what indices point to, to the result of the anchor."""
    plain, dtype = not kernel.job.after, operand.type.dtype
    move = move.in_memory() if plain else move.by_rows()
    if move.picks[-1]:
        _write_elements(kernel, operand, indices, move, terms)
        return
    method, inner = choose_method(move, lanes_of(kernel), dtype, plain)
    loops = Loops(move.extents, [move.to, move.source, move.picks], method.cut, inner)
    with kernel.phase(loops.units, move.size * dtype.itemsize * WORK_OF_BYTE) as p:
        out, source = place_of(p, move.to[-1]), operand_of(p, p.pointer(operand))
        picks = p.pointer(indices)

        def leaf(piece: Index, offsets: list[Index]) -> None:
            """Move a piece of what an index points to."""
            to, start, pick = offsets
            place = source + start + place_picked(picks + pick, terms)
            method.write(p.e, out, piece, to, place)

        with p.units() as unit:
            loops.write(p.e, unit, leaf)


def _write_elements(
    kernel: Kernel, operand: Buffer, indices: Buffer, move: Move, terms: Sequence[Term]
) -> None:
    """One element a lane, each looked up on its own."""
    lanes = max(1, kernel.target.vector_bits // 64)
    method = Pick(min(lanes, lanes_of(kernel)), move, terms)
    strides = [move.to, move.source, move.picks]
    loops = Loops(move.extents, strides, method.cut, [len(move.extents) - 1])
    with kernel.phase(loops.units, move.size * WORK_OF_PICK) as p:
        out, source = place_of(p, move.to[-1]), operand_of(p, p.pointer(operand))
        picks = p.pointer(indices)

        def leaf(piece: Index, offsets: list[Index]) -> None:
            """Look up a piece of a row."""
            to, start, pick = offsets
            method.write(p.e, out.at(to), piece, source + start, picks + pick)

        with p.units() as unit:
            loops.write(p.e, unit, leaf)
