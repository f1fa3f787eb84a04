"""The layout of a reduction: which axes number the lines, and along which one vectors run.

A *line* is what is reduced, normalized or sorted together: all elements along some axes. The others
are *outer*. Neighbouring elements of one axis, the *columns*, fill the lanes of a vector: either
columns of a line, whose lanes are then reduced in the end, or lines side by side, one a lane.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from afterglow.backends.broadcast import Strides, merge_alike
from afterglow.backends.cpu.micro.cost import LANE_REDUCTION
from afterglow.instr import Buffer
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.extent import largest

Placed = Mapping[Buffer, Strides]
"""How far apart the elements of buffers lie along each axis of a shape."""


@dataclass(frozen=True)
class LineLayout:
    """Axes in the order in which they are walked: outer ones, those of a line, then the columns.

    `source` and `sink` are the strides, in that order, of what is read and of what is written.
    """

    outer: tuple[int, ...]
    reduced: tuple[int, ...]
    columns: int
    across: bool
    """Whether the columns are outer: a vector then holds elements of as many lines."""
    source: Placed
    sink: Placed
    others: tuple[Strides, ...] = ()
    """Strides of what else is read, beside the columns."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of all axes."""
        return (*self.outer, *self.reduced, self.columns)

    @property
    def result_shape(self) -> tuple[int, ...]:
        """Extents of what is left if every line becomes one element."""
        return (*self.outer, self.columns if self.across else 1)

    @property
    def result_sink(self) -> Placed:
        """The strides of what is written, in that shape."""
        return {b: (*s[: len(self.outer)], s[-1] * self.across) for b, s in self.sink.items()}

    @property
    def lines(self) -> int:
        """How many lines there are, or rows of lines side by side."""
        return math.prod(self.outer)

    @property
    def rows(self) -> int:
        """How many rows of columns a line has."""
        return math.prod(self.reduced)

    @property
    def length(self) -> int:
        """How many elements a line has."""
        return self.rows if self.across else self.rows * self.columns


@dataclass(frozen=True)
class _Axis:
    """A merged axis, with its stride in each buffer."""

    extent: int
    strides: Strides
    is_outer: bool


def lay_out(
    shape: Sequence[int],
    axes: Sequence[int],
    source: Placed,
    sink: Placed,
    lanes: int,
    others: Sequence[Strides] = (),
) -> LineLayout:
    """The layout of lines along `axes`, given all strides in the operand's shape."""
    strides = [*source.values(), *sink.values(), *others]
    rank = range(len(shape))
    found = [
        *_merged(shape, [a for a in rank if a not in axes], strides, is_outer=True),
        *_merged(shape, [a for a in rank if a in axes], strides, is_outer=False),
    ]
    length = largest(math.prod(axis.extent for axis in found if not axis.is_outer))
    columns = min(found, key=_cost(len(source), length, lanes))
    outer = [axis for axis in found if axis.is_outer and axis is not columns]
    reduced = [axis for axis in found if not axis.is_outer and axis is not columns]
    ordered = [*outer, *reduced, columns]
    placed = [tuple(axis.strides[b] for axis in ordered) for b in range(len(strides))]
    return LineLayout(
        tuple(axis.extent for axis in outer),
        tuple(axis.extent for axis in reduced),
        columns.extent,
        columns.is_outer,
        dict(zip(source, placed[: len(source)], strict=True)),
        dict(zip(sink, placed[len(source) :], strict=False)),
        tuple(placed[len(source) + len(sink) :]),
    )


def _merged(
    shape: Sequence[int], axes: Sequence[int], strides: Sequence[Strides], *, is_outer: bool
) -> list[_Axis]:
    own = [tuple(s[axis] for axis in axes) for s in strides]
    extents, merged = merge_alike([shape[axis] for axis in axes], own)
    return [
        _Axis(extent, tuple(s[place] for s in merged), is_outer)
        for place, extent in enumerate(extents)
    ]


def _cost(sources: int, length: int, lanes: int) -> Callable[[_Axis], float]:
    """About how many loads an element needs if its axis is that of the columns."""

    def cost(axis: _Axis) -> float:
        contiguous = all(stride in (0, 1) for stride in axis.strides[:sources])
        extent = largest(axis.extent)
        vectors = -(-extent // lanes) * (1 if contiguous else min(extent, lanes))
        at_end = 0.0 if axis.is_outer else LANE_REDUCTION / max(1, length)
        return vectors / max(1, extent) + at_end

    return cost


def lifted(strides: Strides, axes: Sequence[int], *, keepdims: bool) -> Strides:
    """Strides in the result's shape as strides in the operand's: 0 along the axes reduced."""
    if keepdims:
        return tuple(0 if axis in axes else s for axis, s in enumerate(strides))
    lifted = list(strides)
    for axis in sorted(axes):
        lifted.insert(axis, 0)
    return tuple(lifted)
