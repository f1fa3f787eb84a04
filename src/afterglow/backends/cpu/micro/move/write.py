"""Writing a move: how its elements are read and written, and what a unit of it is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from afterglow.backends.cpu.llvm.emitter import Emitter, Index, Pointer
from afterglow.backends.cpu.micro.cost import MOVED_BYTE, work_of
from afterglow.backends.cpu.micro.kernel import Kernel, Phase
from afterglow.backends.cpu.micro.move.axes import MoveCut, Nest, StridedMove, as_bits
from afterglow.backends.cpu.micro.move.place import Fused, MemoryPlace, ResultPlace
from afterglow.backends.cpu.micro.move.run import RowMove
from afterglow.backends.cpu.micro.move.tile import TransposeMove
from afterglow.backends.cpu.micro.move.weave import Unweave, Weave
from afterglow.backends.cpu.micro.rows import split
from afterglow.types.dtype import DType
from afterglow.types.extent import largest

UNIT = 4096
"""Elements that a unit has, about."""
COMPUTED_BITS = 32
"""Bits of the narrowest elements that steps after a move compute with, which bounds the lanes."""

Leaf = Callable[[Index, list[Index]], None]
"""What is done for one piece, given an offset for each set of strides."""


class Method(Protocol):
    """Moves the elements along one axis or two, a piece at a time."""

    cut: MoveCut

    def write(self, e: Emitter, out: ResultPlace, piece: Index, to: Index, source: Pointer) -> None:
        """Move one piece; the element that it counts from is there in result and operand."""


def write_move(kernel: Kernel, operand: Callable[[Phase], Pointer], move: StridedMove) -> None:
    """Write the kernel that moves an operand to the result of the anchor."""
    plain, dtype = not kernel.job.after, kernel.step.outs[0].type.dtype
    move = move.in_memory() if plain else move.by_rows()
    method, inner = choose_method(move, lanes_of(kernel), dtype, plain)
    loops = Loops(move.extents, [move.to, move.source], method.cut, inner)
    with kernel.phase(loops.units, work_of(move.size, dtype.itemsize * MOVED_BYTE)) as p:
        out, source = place_of(p, move.to[-1]), operand_of(p, operand(p))

        def leaf(piece: Index, offsets: list[Index]) -> None:
            """Move a piece."""
            method.write(p.e, out, piece, offsets[0], source + offsets[1])

        with p.units() as unit:
            loops.write(p.e, unit, leaf)


def lanes_of(kernel: Kernel) -> int:
    """How many elements are best moved at once."""
    bits = kernel.step.outs[0].type.dtype.itemsize * 8
    if kernel.job.after:
        bits = max(bits, COMPUTED_BITS)
    return max(1, kernel.target.vector_bits // bits)


def operand_of(p: Phase, pointer: Pointer) -> Pointer:
    """Where the operand lies, as bits if nothing is computed from it."""
    return pointer if p.kernel.job.after else pointer.cast(as_bits(pointer.dtype))


def place_of(p: Phase, stride: int) -> ResultPlace:
    """The result of the anchor, as bits if nothing more is computed from it."""
    if p.kernel.job.after:
        return Fused(p.sink())
    return MemoryPlace(operand_of(p, p.pointer(p.step.outs[0])), stride)


def choose_method(
    move: StridedMove, lanes: int, dtype: DType, plain: bool
) -> tuple[Method, tuple[int, ...]]:
    """How to move, and the axes that the method goes along."""
    last, fast = len(move.extents) - 1, move.fast_axis
    if fast is None or move.source[-1] in (0, 1) or move.to[-1] != 1:
        return RowMove(lanes, move, dtype.itemsize), (last,)
    if plain and Weave.fits(move, fast):
        return Weave(lanes, move, fast), (fast, last)
    if Unweave.fits(move, fast):
        return Unweave(lanes, move, fast), (fast, last)
    return TransposeMove(lanes, move, fast), (fast, last)


class Loops:
    """The loops around a method: units, and the axes that the method does not cover."""

    def __init__(
        self,
        extents: Sequence[int],
        strides: Sequence[Sequence[int]],
        cut: MoveCut,
        inner: Collection[int],
    ) -> None:
        self.pieces = cut.pieces
        axes = [axis for axis in range(len(extents)) if axis not in inner]
        self.strides = [[own[axis] for axis in axes] for own in strides]
        goal = 1 if largest(cut.pieces) > 1 else max(1, UNIT // max(1, cut.elements))
        self.nest = Nest(tuple(extents[axis] for axis in axes), goal)
        self.units = self.nest.units * cut.pieces

    def write(self, e: Emitter, unit: Index, leaf: Leaf) -> None:
        """One unit: a piece of the method's, or all of it for several places around it."""
        place, piece = split(unit, self.pieces)
        outer, block = self.nest.outer(place)

        def go_along(indices: list[Index]) -> None:
            if len(indices) == len(self.nest.extents):
                leaf(piece, [_offset(indices, own) for own in self.strides])
                return
            start, stop = self.nest.bounds(e, len(indices), block)
            with e.loop(stop, start=start) as index:
                go_along([*indices, index])

        go_along(outer)


def _offset(indices: list[Index], strides: list[int]) -> Index:
    """How far from element 0 an element lies."""
    total: Index = 0
    for index, stride in zip(indices, strides, strict=True):
        total = total + index * stride if stride != 0 else total
    return total
