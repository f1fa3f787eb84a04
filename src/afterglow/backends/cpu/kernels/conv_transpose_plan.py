"""Transposed convolutions: which elements of x reach which results, and how the work is cut.

Result o along an axis is reached by element i of x through tap k if o + begin = i * stride +
k * dilation. So the results fall into *phases*, by (o + begin) modulo the stride: those of a phase
are reached through the same taps, each from the element that lies as many steps before its *base*,
(o + begin) divided by the stride.
"""

from __future__ import annotations

import itertools
import math
from functools import cached_property

import numpy as np

from afterglow.backends.broadcast import Strides
from afterglow.backends.cpu.llvm.types import is_arithmetic
from afterglow.backends.cpu.micro.lanes import fitting_lanes, full_lanes
from afterglow.backends.cpu.micro.partial_sums import block_size
from afterglow.backends.cpu.micro.sliding import Tail
from afterglow.backends.cpu.micro.tile import (
    RegisterTile,
    TileRun,
    halved_runs,
    most_rows,
    sum_type,
)
from afterglow.backends.cpu.target import Target
from afterglow.instr import OpInstr, row_major
from afterglow.ops.convolution import ConvTranspose
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array
from afterglow.types.dtype import DType
from afterglow.types.extent import is_ranged, larger_extent, largest, smaller_extent

MOST_VECTORS = 2
"""Vectors in a row of a tile."""
MOST_ROWS = 8
"""Rows of a tile along the depth: enough to hide the latency of additions."""
FEW_RESULTS = 4
"""Vectors run along the depth if a vector has at least this many times as many lanes as results."""
TERMS_OF_TAP = 32
"""Channels from which on the products of each tap are a block of their own."""
WANTED_UNITS = 16
"""Units that work is cut into, if there is enough of it."""


@dataclass(frozen=True)
class ResultAxis:
    """How x reaches the results along one axis."""

    extent: int
    results: int
    kernel: int
    stride: int
    dilation: int
    begin: int

    def taps(self, phase: int) -> list[tuple[int, int]]:
        """The taps of a phase, each with how many elements before the base it reads."""
        places = ((tap, tap * self.dilation - phase) for tap in range(self.kernel))
        return [(tap, way // self.stride) for tap, way in places if way % self.stride == 0]

    @cached_property
    def margins(self) -> tuple[int, int]:
        """How far results look beyond the beginning and the end of x."""
        before, behind = 0, 0
        for phase in range(self.stride):
            first, last = (
                (o + self.begin) // self.stride for o in (self._first(phase), self._last(phase))
            )
            if self._first(phase) < largest(self.results):
                for _, back in self.taps(phase):
                    before = max(before, back - first)
                    behind = max(behind, largest(last - back - self.extent + 1))
        return before, behind

    def _first(self, phase: int) -> int:
        return (phase - self.begin) % self.stride

    def _last(self, phase: int) -> int:
        first = self._first(phase)
        return first + (self.results - 1 - first) // self.stride * self.stride

    @property
    def counts(self) -> list[tuple[int, int, int]]:
        """Ranges of the first results of phases, with as many results in each: (start, stop, n)."""
        short, rest = divmod(self.results, self.stride)
        ranges = [(0, rest, short + 1), (rest, self.stride, short)]
        return [(start, stop, n) for start, stop, n in ranges if start < stop and n != 0]


class ConvTransposePlan:
    """The geometry of a transposed convolution, and its tiles."""

    def __init__(self, step: OpInstr, target: Target) -> None:
        op, (x, weight, *_) = step.op, step.required
        assert isinstance(op, ConvTranspose)
        self.x, self.weight, self.target = x, weight, target
        self.groups, self.batch = op.groups, x.type.shape[0]
        self.inner, self.results = x.type.shape[-1] // op.groups, weight.type.shape[-1]
        facts = (
            x.type.shape[1:-1],
            step.outs[0].type.shape[1:-1],
            weight.type.shape[1:-1],
            op.strides,
            op.dilations,
            op.pads,
        )
        self.axes = [ResultAxis(*values) for values in zip(*facts, strict=False)]
        self.sums = sum_type(x.type.dtype)
        self.work = 2.0 * x.type.size * math.prod(weight.type.shape[1:])

    @property
    def copies(self) -> bool:
        """Whether x is copied first: with zeros around it, or as a type that has arithmetic."""
        has_margins = any(any(axis.margins) for axis in self.axes)
        return has_margins or not is_arithmetic(self.x.type.dtype)

    @property
    def padded_shape(self) -> tuple[int, ...]:
        """The shape of x with its margins."""
        spatial = (axis.extent + sum(axis.margins) for axis in self.axes)
        return (self.batch, *spatial, self.x.type.shape[-1])

    @property
    def strides(self) -> Strides:
        """Those of what is read: of x, or of its copy."""
        return row_major(self.padded_shape) if self.copies else self.x.strides

    @property
    def read_type(self) -> DType:
        """The element type of what is read."""
        return self.sums if self.copies else self.x.type.dtype

    @cached_property
    def along_depth(self) -> bool:
        """Whether vectors run along the channels of x, where these are many and results few."""
        few = self.results * FEW_RESULTS <= self._lanes <= self.inner
        fits = self.inner % self._lanes == 0 or Tail.of(self.target, self.sums) is not Tail.SINGLE
        return few and fits and self.strides[-1] == 1

    @property
    def _lanes(self) -> int:
        return full_lanes(self.target, self.sums)

    @cached_property
    def tile(self) -> RegisterTile:
        """The tile of registers that results are summed up in; along the depth, one a vector."""
        lanes = self._lanes
        if self.along_depth:
            rows = (self.target.vector_registers - self.results - 2) // self.results
            return RegisterTile(max(1, min(MOST_ROWS, rows)), self.results, lanes)
        lanes = fitting_lanes(lanes, self.results)
        vectors = min(MOST_VECTORS, -(-self.results // lanes))
        return RegisterTile(most_rows(self.target, vectors, self.sums), vectors, lanes)

    @property
    def columns(self) -> int:
        """Results that a tile has in a row."""
        return self.results if self.along_depth else self.tile.columns

    @property
    def depth(self) -> int:
        """Channels of a group in the packed weight: along the depth, up to a whole vector."""
        return (
            -(-self.inner // self.tile.lanes) * self.tile.lanes if self.along_depth else self.inner
        )

    @property
    def panels(self) -> int:
        """Panels of the weight in each group."""
        return -(-self.results // self.columns)

    @property
    def lines(self) -> int:
        """Rows of results, through all axes but the last."""
        return self.batch * math.prod(axis.results for axis in self.axes[:-1])

    @cached_property
    def block(self) -> int:
        """Lines that a unit computes: what they read stays in the cache, and units are enough."""
        width = largest(self.axes[-1].extent) * self.x.type.shape[-1] * self.read_type.itemsize
        above = self.axes[-2].stride if len(self.axes) > 1 else 1
        fitting = self.target.caches.l2 // 2 // max(1, width) * above
        shared = self.lines * self.groups * self.panels // WANTED_UNITS
        return larger_extent(smaller_extent(shared, fitting), 1)

    @property
    def units(self) -> int:
        """Blocks of lines in parts, for each panel."""
        return -(-self.lines // self.block) * self.parts * self.groups * self.panels

    @property
    def parts(self) -> int:
        """Into how many parts lines are cut, where there are few of them."""
        tiles = -(-self.axes[-1].results // self.axes[-1].stride // self.tile.rows)
        wanted = WANTED_UNITS // (self.lines * self.groups * self.panels)
        return larger_extent(smaller_extent(tiles, wanted), 1)

    def runs(self, count: int) -> list[TileRun]:
        """The tiles of the results of a phase in a line."""
        return halved_runs(count, self.tile.rows)

    @cached_property
    def taps(self) -> list[tuple[int, tuple[int, ...]]]:
        """All taps by phases: the number of the tap in the weight, and how far back it reads.

        That is the number of elements along each axis.
        """
        return [tap for phase in self._phases for tap in phase]

    @property
    def backs(self) -> list[tuple[Array, int]]:
        """How far back all taps read: tables of steps, each with the length of its step.

        Where strides are known it is one table, else one for each axis.
        """
        steps = np.array([back for _, back in self.taps] or [(0,) * len(self.axes)], np.int64)
        strides = self.strides[1:-1]
        if not any(map(is_ranged, strides)):
            return [(steps @ np.array(strides, np.int64), 1)]
        return [(steps[:, axis], stride) for axis, stride in enumerate(strides)]

    @property
    def phase_starts(self) -> Array:
        """Where the taps of each phase begin among all, and where those of the last end."""
        return np.cumsum([0, *(len(phase) for phase in self._phases)]).astype(np.int32)

    @cached_property
    def _phases(self) -> list[list[tuple[int, tuple[int, ...]]]]:
        """The taps of each phase, the last axis fastest."""
        found = []
        for phase in itertools.product(*(range(axis.stride) for axis in self.axes)):
            by_axis = [axis.taps(p) for axis, p in zip(self.axes, phase, strict=True)]
            found.append([self._joined(taps) for taps in itertools.product(*by_axis)])
        return found

    def _joined(self, taps: tuple[tuple[int, int], ...]) -> tuple[int, tuple[int, ...]]:
        number = 0
        for axis, (tap, _) in zip(self.axes, taps, strict=True):
            number = number * axis.kernel + tap
        return number, tuple(elements for _, elements in taps)

    @property
    def most_taps(self) -> int:
        """Taps of a phase at most."""
        return max(map(len, self._phases), default=0)

    @property
    def taps_of_block(self) -> int:
        """Taps whose products are summed up before they join the total of all."""
        if not self.sums.is_float:
            return self.most_taps
        if self.inner >= TERMS_OF_TAP:
            return 1
        return block_size(
            self.most_taps, terms=self.inner / (self._lanes if self.along_depth else 1)
        )

    @property
    def tap_size(self) -> int:
        """Elements that a panel has for one tap."""
        return self.depth * self.columns

    @property
    def packed_size(self) -> int:
        """Elements of the packed weight."""
        return self.groups * self.panels * len(self.taps) * self.tap_size

    def pack(self, weight: Array) -> Array:
        """The weight as [groups, panels, taps by phases, channels, columns of a panel].

        Where vectors run along the channels, these come last.
        """
        order = [number for number, _ in self.taps]
        missing = (0, self.depth - self.inner), (0, self.panels * self.columns - self.results)
        by_tap = weight.reshape(self.groups, self.inner, -1, self.results)[:, :, order]
        padded = np.pad(by_tap, ((0, 0), missing[0], (0, 0), missing[1]))
        panels = padded.reshape(self.groups, self.depth, len(order), self.panels, self.columns)
        axes = (0, 3, 2, 4, 1) if self.along_depth else (0, 3, 2, 1, 4)
        return np.ascontiguousarray(panels.transpose(axes).astype(self.sums.numpy))
