"""Tensors as rows: how the elements of a buffer meet those of a result, row by row.

Every kernel sees a result as rows along its last axis. Row m and column n of an operand that is
broadcast to the result lie at `offset(m) + n * column_stride`.
"""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.backends.broadcast import Strides
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    gather,
    lane_numbers,
    load_masked,
    quotient,
    remainder,
    scatter,
    store_masked,
)
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.extent import is_ranged, largest


@dataclass(frozen=True)
class Axes:
    """Extents and strides of neighbouring axes, as few of them as describe the same elements."""

    extents: tuple[int, ...]
    strides: Strides

    @staticmethod
    def merged(shape: Sequence[int], strides: Sequence[int]) -> Axes:
        """Axes that one stride walks through become one."""
        kept = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
        axes: list[tuple[int, int]] = []
        for extent, stride in kept:
            if axes and axes[-1][1] == stride * extent:
                axes[-1] = (axes[-1][0] * extent, stride)
            else:
                axes.append((extent, stride))
        return Axes(tuple(n for n, _ in axes), tuple(s for _, s in axes))

    def offset(self, place: Index) -> Index:
        """Where an element lies, given its number in row-major order."""
        if not self.extents:
            return 0
        total: Index = 0
        for extent, stride in zip(self.extents[:0:-1], self.strides[:0:-1], strict=True):
            place, rest = split(place, extent)
            total = total + rest * stride if stride != 0 else total
        first = self.strides[0]
        return total + place * first if first != 0 else total


def split(place: Index, extent: int) -> tuple[Index, Index]:
    """Quotient and remainder of a place by an extent; if that is 1 at most, the place and 0."""
    if largest(extent) <= 1:
        return place, 0
    if isinstance(place, int):
        return divmod(place, extent)
    return quotient(place, extent), remainder(place, extent)


class Rows:
    """A buffer in memory, read or written by rows and columns of some shape."""

    def __init__(self, pointer: Pointer, shape: Sequence[int], strides: Strides) -> None:
        self.pointer = pointer
        self.strides = strides
        self.leading = Axes.merged(shape[:-1], strides[:-1])
        self.column_stride = strides[-1] if strides else 0

    @property
    def is_same_in_all(self) -> bool:
        """Whether all rows are the same row."""
        return all(stride == 0 for stride in self.leading.strides)

    def row(self, number: Index) -> Row:
        """One row."""
        return Row(self.pointer + self.leading.offset(number), self.column_stride)

    def row_at(self, place: Sequence[Index]) -> Row:
        """One row, by its index along each axis but the last: no number need be divided."""
        pointer = self.pointer
        for index, stride in zip(place, self.strides, strict=False):
            pointer = pointer + index * stride if stride != 0 else pointer
        return Row(pointer, self.column_stride)


@dataclass(frozen=True)
class Row:
    """One row of a buffer: where it begins, and how far apart its elements lie."""

    pointer: Pointer
    stride: int

    def load(self, column: Index, lanes: int, mask: Value | None = None) -> Value:
        """Neighbouring columns, where the mask holds; a column that is repeated is a scalar."""
        if self.stride == 0:
            return self.pointer.load()
        place = self.pointer + column * self.stride
        if self.stride == 1 or lanes == 1:
            return place.load(0, lanes) if mask is None else load_masked(place, mask)
        steps = lane_numbers(place.code, place.code.index_type, lanes, self.stride)
        return gather(place, steps, mask)

    def store(self, value: Value, column: Index, mask: Value | None = None) -> None:
        """Write neighbouring columns, where the mask holds."""
        place = self.pointer + column * self.stride
        if self.stride == 1 or value.lanes == 1:
            place.store(value) if mask is None else store_masked(place, value, mask)
            return
        steps = lane_numbers(place.code, place.code.index_type, value.lanes, self.stride)
        scatter(place, value, steps, mask)


def pixel_axes(extents: Sequence[int], jumps: Sequence[int]) -> Axes:
    """The pixels of the result in x; a ranged number of images stays apart from exact images."""
    if not is_ranged(extents[0]) or any(map(is_ranged, extents[1:])):
        return Axes.merged(extents, jumps)
    image = Axes.merged(extents[1:], jumps[1:])
    return Axes((extents[0], *image.extents), (jumps[0], *image.strides))
