"""Memory layouts: the order of the elements of a value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import groupby

from afterglow.support.lazy_dataclass import dataclass
from afterglow.transforms.layouts.permutations import Perm, inverse, is_identity, keeps_order
from afterglow.types.extent import is_ranged, smallest


@dataclass(frozen=True)
class Layout:
    """Another order of the elements of a value: transpose(reshape(value, factors), perm).

    Each axis of the value is the product of some neighbouring factors, so that reshapes of the
    value can be distinguished from changes of the order.
    """

    factors: tuple[int, ...]
    perm: Perm

    @staticmethod
    def own(shape: tuple[int, ...]) -> Layout:
        """The row-major layout of a value of that shape."""
        return Layout(shape, tuple(range(len(shape))))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value in this layout."""
        return tuple(self.factors[axis] for axis in self.perm)

    @property
    def is_identity(self) -> bool:
        """Whether it is the row-major layout."""
        return is_identity(self.perm)

    @property
    def keeps_order(self) -> bool:
        """Whether a reshape is enough: only factors of 1 move."""
        return keeps_order(self.perm, self.factors)

    @cached_property
    def order(self) -> tuple[tuple[int, ...], Perm]:
        """The order of the elements, however the value is shaped: equal for equal orders."""
        long = [axis for axis, factor in enumerate(self.factors) if factor != 1]
        place = {axis: index for index, axis in enumerate(long)}
        moved = [place[axis] for axis in self.perm if axis in place]
        runs = [[moved[index] for index in run] for run in _runs(moved)]
        extents = {run[0]: math.prod(self.factors[long[index]] for index in run) for run in runs}
        starts = sorted(extents)
        return (
            tuple(extents[start] for start in starts),
            tuple(starts.index(run[0]) for run in runs),
        )

    def carried(self, shape: Sequence[int]) -> Layout | None:
        """The same order of elements as a layout of the value reshaped to `shape`.

        None if an axis of `shape` covers a factor and a part of another that does not divide it.
        """
        pieces = _common_pieces(self.factors, shape)
        if pieces is None:
            return None
        place = inverse(self.perm)
        moved = sorted(range(len(pieces)), key=lambda index: (place[pieces[index].factor], index))
        blocks = [
            _Block(block[0], pieces[block[0]].axis, math.prod(pieces[i].extent for i in block))
            for run in _runs(moved)
            for block in _within_axes([moved[index] for index in run], pieces)
        ]
        blocks = _with_unit_axes(blocks, shape)
        ordered = sorted(blocks, key=lambda block: (block.axis, block.start))
        number = {block: index for index, block in enumerate(ordered)}
        return Layout(
            tuple(block.extent for block in ordered), tuple(number[block] for block in blocks)
        )

    def before_transpose(self, perm: Perm, shape: Sequence[int]) -> Layout:
        """A layout of transpose(value, perm) as a layout of the value, which has that shape."""
        groups = self.axes([shape[axis] for axis in perm])
        factors = [factor for place in inverse(perm) for factor in groups[place]]
        number = {factor: index for index, factor in enumerate(factors)}
        return Layout(
            tuple(self.factors[factor] for factor in factors),
            tuple(number[factor] for factor in self.perm),
        )

    def axes(self, shape: Sequence[int]) -> list[list[int]]:
        """The factors of each axis of a value of that shape; factors of 1 fit anywhere."""
        groups: list[list[int]] = [[] for _ in shape]
        missing, axis = list(shape), 0
        for index, factor in enumerate(self.factors):
            while factor != 1 and missing[axis] == 1:
                axis += 1
            groups[axis].append(index)
            missing[axis] = 1 if missing[axis] == factor else missing[axis] // factor
        return groups

    def within_last_axis(self, shape: Sequence[int]) -> Layout | None:
        """The layout of the last axis of a value of that shape, if no other axis moves there."""
        start = len(self.factors)
        while math.prod(self.factors[start:]) != shape[-1]:
            start -= 1
        long = [axis for axis in self.perm if self.factors[axis] != 1]
        leading = [axis for axis in range(start) if self.factors[axis] != 1]
        if long[: len(leading)] != leading:
            return None
        return Layout(
            self.factors[start:], tuple(axis - start for axis in self.perm if axis >= start)
        )


@dataclass(frozen=True)
class _Piece:
    """The common part of one factor of a layout and one axis of a shape."""

    extent: int
    factor: int
    axis: int


@dataclass(frozen=True)
class _Block:
    """Pieces of one axis that stay together; `start` is the first."""

    start: int
    axis: int
    extent: int


def _runs(moved: Sequence[int]) -> list[list[int]]:
    """The places in `moved`, cut wherever a number does not follow the one before it."""
    keyed = groupby(range(len(moved)), key=lambda place: moved[place] - place)
    return [list(run) for _, run in keyed]


def _within_axes(run: list[int], pieces: list[_Piece]) -> list[list[int]]:
    return [list(block) for _, block in groupby(run, key=lambda index: pieces[index].axis)]


def _common_pieces(factors: Sequence[int], shape: Sequence[int]) -> list[_Piece] | None:
    """The coarsest factors, none of them 1, of which both sequences are products."""
    left = [(extent, index) for index, extent in enumerate(factors) if extent != 1][::-1]
    right = [(extent, index) for index, extent in enumerate(shape) if extent != 1][::-1]
    pieces = []
    while left and right:
        (a, factor), (b, axis) = left.pop(), right.pop()
        small = _common_factor(a, b)
        if small is None:
            return None
        pieces.append(_Piece(small, factor, axis))
        if a != small:
            left.append((a // small, factor))
        if b != small:
            right.append((b // small, axis))
    return pieces


def _common_factor(a: int, b: int) -> int | None:
    """Whichever of two extents divides the other, for certain."""
    if a == b:
        return None if a == 0 else a
    for small, large in ((a, b), (b, a)):
        if smallest(small) > 0 and not is_ranged(large % small) and large % small == 0:
            return small
    return None


def _with_unit_axes(blocks: list[_Block], shape: Sequence[int]) -> list[_Block]:
    """Put each axis of extent 1 behind the block that it follows in `shape`, or first."""
    result = list(blocks)
    for axis, extent in enumerate(shape):
        if extent == 1:
            before = [block for block in result if block.axis < axis]
            last = max(before, key=lambda block: (block.axis, block.start), default=None)
            place = 0 if last is None else result.index(last) + 1
            result.insert(place, _Block(-1, axis, 1))
    return result
