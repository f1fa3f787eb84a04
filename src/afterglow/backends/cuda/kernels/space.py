"""A tensor as lines of elements: some axes tell lines apart, the others lie along a line."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

from afterglow.backends.broadcast import Strides
from afterglow.support.lazy_dataclass import dataclass

_Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Space:
    """The extents of the axes of lines, then of elements, as few as all buffers allow.

    Axes are in the order in which they lie in memory, so that neighbours are read together.
    """

    lines: tuple[int, ...]
    elements: tuple[int, ...]
    has_columns: bool
    """Whether neighbours in memory are of different lines."""
    _view: Callable[[Strides], Strides]
    _groups: _Groups

    @staticmethod
    def of(
        shape: Sequence[int],
        along: Collection[int],
        every: Sequence[Strides],
        view: Callable[[Strides], Strides] = lambda strides: strides,
    ) -> Space:
        """The lines along some axes of a shape.

        `every` are the strides of all buffers, those of what is read most first. `view` makes
        strides in the shape of those in the shape that they are given in.
        """
        viewed = [view(strides) for strides in every]
        order = _order(shape, viewed[0])
        lines = _merged(shape, [axis for axis in order if axis not in along], viewed)
        elements = _merged(shape, [axis for axis in order if axis in along], viewed)
        apart, inside = (_least(groups, viewed[0]) for groups in (lines, elements))
        return Space(
            _extents(shape, lines),
            _extents(shape, elements),
            0 < apart < inside,
            view,
            (*lines, *elements),
        )

    @property
    def count(self) -> int:
        """How many lines there are."""
        return math.prod(self.lines)

    @property
    def size(self) -> int:
        """How many elements a line has."""
        return math.prod(self.elements)

    def within(self, strides: Strides) -> Strides:
        """The strides of a buffer along the axes of lines, then along those of elements."""
        viewed = self._view(strides)
        return tuple(viewed[group[-1]] if group else 0 for group in self._groups)


def _order(shape: Sequence[int], strides: Strides) -> list[int]:
    """The axes with more than one element, those with the smallest strides last."""
    axes = [axis for axis, extent in enumerate(shape) if extent != 1]
    return sorted(axes, key=lambda axis: -abs(strides[axis]))


def _merged(shape: Sequence[int], axes: Sequence[int], every: Sequence[Strides]) -> _Groups:
    """Axes that all buffers step through as through one; an empty group stands for none."""
    groups: list[tuple[int, ...]] = []
    for axis in axes:
        extent = shape[axis]
        if groups and all(s[groups[-1][-1]] == s[axis] * extent for s in every):
            groups[-1] = (*groups[-1], axis)
        else:
            groups.append((axis,))
    return tuple(groups) or ((),)


def _extents(shape: Sequence[int], groups: _Groups) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis] for axis in group) for group in groups)


def _least(groups: _Groups, strides: Strides) -> int:
    """The distance of neighbours along the last axis; 0 if there are none."""
    return abs(strides[groups[-1][-1]]) if groups[-1] else 0
