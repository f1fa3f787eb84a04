"""Strided moves: extents, and the strides of the result and of the operand."""

from __future__ import annotations

import math

from afterglow.backends.broadcast import Strides, merge_alike
from afterglow.backends.cpu.llvm.emitter import Emitter, Index, smaller
from afterglow.backends.cpu.micro.rows import split
from afterglow.instr.buffer import row_major
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType, u8, u16, u32, u64
from afterglow.types.extent import largest, smallest

_BITS = {1: u8, 2: u16, 4: u32, 8: u64}


def as_bits(dtype: DType) -> DType:
    """The unsigned integer that an element is moved as."""
    return _BITS[dtype.itemsize]


@dataclass(frozen=True)
class StridedMove:
    """Elements to be moved; the result is written along the last axis.

    Where an operand is indexed, `index_strides` are the strides of the indices that are looked up.
    """

    extents: tuple[int, ...]
    to: Strides
    source: Strides
    index_strides: Strides

    @staticmethod
    def of(
        extents: Strides, to: Strides, source: Strides, index_strides: Strides | None = None
    ) -> StridedMove:
        """A move, by default one that looks up nothing."""
        return StridedMove(extents, to, source, index_strides or (0,) * len(extents))

    def in_memory(self) -> StridedMove:
        """The same, with the axes in the order in which the result lies, and as few as possible."""
        axes = zip(self.extents, self.to, self.source, self.index_strides, strict=True)
        kept = sorted((axis for axis in axes if axis[0] != 1), key=lambda axis: -_reach(axis[1]))
        if not kept:
            return StridedMove((1,), (1,), (1,), (0,))
        extents, *strides = zip(*kept, strict=True)
        merged, strides = merge_alike(extents, strides)
        return StridedMove(merged, *strides)

    def by_rows(self) -> StridedMove:
        """The same, with rows of the result by their number, and its columns along the last axis.

        So it is for results that are put through a sink, which knows rows and columns only.
        """
        if not self.extents:
            return StridedMove((1, 1), (0, 1), (0, 0), (0, 0))
        leading = self.extents[:-1]
        own = [row_major(leading), self.source[:-1], self.index_strides[:-1]]
        merged, (to, source, index_strides) = merge_alike(leading, own)
        last = self.extents[-1], 1, self.source[-1], self.index_strides[-1]
        axes = zip((merged, to, source, index_strides), last, strict=True)
        return StridedMove(*((*leading, own) for leading, own in axes))

    @property
    def size(self) -> int:
        """How many elements are moved."""
        return math.prod(self.extents)

    @property
    def fast_axis(self) -> int | None:
        """The longest axis, but for the last, along which the operand's elements are neighbours."""
        axes = [
            axis
            for axis in range(len(self.extents) - 1)
            if self.source[axis] == 1
            and self.index_strides[axis] == 0
            and largest(self.extents[axis]) > 1
        ]
        return max(axes, key=lambda axis: largest(self.extents[axis]), default=None)


def _reach(stride: int) -> int:
    """The largest distance that a stride may be."""
    return max(abs(smallest(stride)), abs(largest(stride)))


@dataclass(frozen=True)
class MoveCut:
    """The number of pieces along the axes of a method, and the elements of a piece."""

    pieces: int
    elements: int


def pieces_of(extent: int, size: int) -> int:
    """How many pieces of a size an extent has, the last of which may be smaller."""
    return (extent + size - 1) // size


class Nest:
    """Loops over axes: units number the outer ones, and a unit runs through the inner ones.

    One axis in between is cut into blocks, so that a unit has about `goal` steps.
    """

    def __init__(self, extents: tuple[int, ...], goal: int) -> None:
        self.extents = extents
        self.cut = len(extents)
        inner = 1
        while self.cut > 0 and inner < goal:
            self.cut -= 1
            inner *= largest(extents[self.cut])
        whole = math.prod(largest(extent) for extent in extents[self.cut + 1 :])
        self.block = max(1, goal // max(1, whole))
        self.blocks = 1 if self.cut == len(extents) else pieces_of(extents[self.cut], self.block)
        self.units = math.prod(extents[: self.cut]) * self.blocks

    def outer(self, unit: Index) -> tuple[list[Index], Index]:
        """The indices along the outer axes, and the number of the block."""
        place, block = split(unit, self.blocks)
        indices: list[Index] = []
        for extent in reversed(self.extents[1 : self.cut]):
            place, index = split(place, extent)
            indices.insert(0, index)
        return ([place, *indices] if self.cut else []), block

    def bounds(self, e: Emitter, axis: int, block: Index) -> tuple[Index, Index]:
        """From where to where a unit goes along an inner axis."""
        extent = self.extents[axis]
        if axis > self.cut or largest(self.blocks) == 1:
            return 0, extent
        start = block * self.block
        return start, smaller(e.index(start + self.block), extent)
