"""Tiles of lines that are reduced at once: which lines, and what is transposed for that."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field, replace

from afterglow.backends.broadcast import Strides
from afterglow.backends.cpu.micro.kernel import KernelNeeds, KernelRequest, Storage
from afterglow.backends.cpu.micro.lanes import fitting_lanes, full_lanes
from afterglow.backends.cpu.micro.layout import LineLayout
from afterglow.backends.cpu.micro.reduction_lines import ReductionLines
from afterglow.instr import Buffer
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.extent import is_ranged

_HEIGHT = 4
"""Lines of a tile."""
_LEAST_UNITS = 8
"""Tiles that are enough for threads to share."""
_LEAST_COLUMNS = 16
_LEAST_USES = 16
"""How often elements must be used for a copy of them to be worth it."""


@dataclass(frozen=True)
class TransposedOperand:
    """A copy of an operand in workspace in which columns are contiguous.

    `shape` are the extents of the axes along which it has elements, with the strides of the operand
    and of the copy; `placed` are the strides of the copy in the shape of the layout.
    """

    name: str
    shape: tuple[int, ...]
    source: Strides
    copy: Strides
    placed: Strides


@dataclass(frozen=True)
class LineTile:
    """Neighbouring lines along an outer axis, in vectors side by side, that one unit reduces."""

    lines: ReductionLines
    axis: int
    height: int
    side: int
    transposed: Mapping[Buffer, TransposedOperand] = field(default_factory=dict)

    @property
    def layout(self) -> LineLayout:
        """How the lines lie."""
        return self.lines.layout

    @property
    def blocks(self) -> int:
        """Tiles along the axis; the last one may be lower."""
        return -(-self.layout.outer[self.axis] // self.height)

    @property
    def groups(self) -> int:
        """Tiles along the columns."""
        return -(-self.layout.columns // (self.side * self.lines.lanes))

    @property
    def units(self) -> int:
        """All tiles."""
        return self.layout.lines // self.layout.outer[self.axis] * self.blocks * self.groups

    @property
    def heights(self) -> tuple[int, ...]:
        """The heights that tiles have: that of the last one, if it is lower, comes second."""
        rest = self.layout.outer[self.axis] % self.height
        return (self.height, rest) if rest else (self.height,)

    @property
    def needs(self) -> KernelNeeds:
        """Workspace for the transposed operands."""
        return KernelNeeds(
            workspace={
                each.name: Storage(buffer.type.dtype, math.prod(each.shape))
                for buffer, each in self.transposed.items()
            }
        )


def tile_of(r: KernelRequest, lines: ReductionLines) -> LineTile | None:
    """The tile that saves loads; None if no operand serves several lines."""
    shape = lines.layout.shape
    if not r.job.before or any(map(is_ranged, shape)) or 0 in shape or len(lines.layout.source) < 2:
        return None
    layout = lines.layout if lines.layout.across else _turned(lines.layout)
    if layout is None:
        return None
    strided = {b: s for b, s in layout.source.items() if s[-1] not in (0, 1)}
    transposed = {
        b: _transposed(f"turned{i}", layout, s) for i, (b, s) in enumerate(strided.items())
    }
    copied = max((math.prod(each.shape) for each in transposed.values()), default=0)
    if math.prod(shape) < _LEAST_USES * copied:
        return None
    rows = slice(len(layout.outer), -1)
    vectors = [s for s in layout.source.values() if s[-1] != 0 and any(s[rows])]
    axes = [a for a, n in enumerate(layout.outer) if n > 1 and any(s[a] == 0 for s in vectors)]
    if not axes:
        return None
    lanes = fitting_lanes(full_lanes(r.target, lines.dtype), layout.columns)
    side = min(4 if r.target.vector_registers > 16 else 2, -(-layout.columns // lanes))
    walked = replace(lines, layout=layout, lanes=lanes, side=side, cut=None)
    tile = LineTile(walked, axes[-1], min(_HEIGHT, layout.outer[axes[-1]]), side, transposed)
    return tile if tile.units >= _LEAST_UNITS else None


def _turned(layout: LineLayout) -> LineLayout | None:
    """Lines whose vectors run along them, with vectors across them instead."""
    steps = [
        {strides[axis] for strides in layout.sink.values()} for axis in range(len(layout.outer))
    ]
    columns = [
        axis
        for axis, extent in enumerate(layout.outer)
        if extent >= _LEAST_COLUMNS and steps[axis] in ({1}, {0, 1})
    ]
    if not columns:
        return None
    outer = [axis for axis in range(len(layout.outer)) if axis != columns[0]]
    order = [*outer, *range(len(layout.outer), len(layout.shape)), columns[0]]

    def turned(strides: Strides) -> Strides:
        return tuple(strides[axis] for axis in order)

    return LineLayout(
        tuple(layout.outer[axis] for axis in outer),
        (*layout.reduced, layout.columns),
        layout.outer[columns[0]],
        True,
        {buffer: turned(strides) for buffer, strides in layout.source.items()},
        {buffer: turned(strides) for buffer, strides in layout.sink.items()},
    )


def _transposed(name: str, layout: LineLayout, strides: Strides) -> TransposedOperand:
    """The copy of an operand along the axes that it has."""
    axes = [axis for axis, stride in enumerate(strides) if stride != 0]
    shape = tuple(layout.shape[axis] for axis in axes)
    copy = tuple(math.prod(shape[number + 1 :]) for number in range(len(shape)))
    placed = [0] * len(strides)
    for axis, stride in zip(axes, copy, strict=True):
        placed[axis] = stride
    return TransposedOperand(
        name, shape, tuple(strides[axis] for axis in axes), copy, tuple(placed)
    )
