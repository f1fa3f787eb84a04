"""How the gradient of a convolution's weight is cut up: columns, rows, blocks of windows, units.

It is a matrix product for each group: the slopes [windows, results], transposed, times what the
taps see [windows, taps and channels]. A *panel* is a few vectors of neighbouring columns: channels
that one tap sees, or, where these are too few for a vector, channels that several taps see. Windows
go by *blocks*, and blocks by *chunks*, whose sums are added in the end, always in the same order.
"""

from __future__ import annotations

import math
from functools import cached_property

from afterglow.backends.cpu.llvm.emitter import Emitter, Index, Value, smaller
from afterglow.backends.cpu.micro.cost import memory_bound
from afterglow.backends.cpu.micro.kernel import KernelNeeds, Storage
from afterglow.backends.cpu.micro.lanes import fitting_lanes, full_lanes
from afterglow.backends.cpu.micro.panels import Panels
from afterglow.backends.cpu.micro.sliding import WindowAxis
from afterglow.backends.cpu.micro.tile import TileRun, most_rows, split_rows, sum_type
from afterglow.backends.cpu.target import Target
from afterglow.instr import OpInstr
from afterglow.ops.convolution import ConvWeightGradient
from afterglow.ops.windows import Windows
from afterglow.types.dtype import DType, i32, i64
from afterglow.types.extent import largest

VECTORS = 2
"""Vectors of a panel."""
MOST_ROWS = 16
"""Rows of a tile."""
MOST_WINDOWS, LEAST_WINDOWS = 256, 64
"""Windows of a block: so few terms are summed up at once."""
WANTED_UNITS = 16
"""Units that work is cut into, if there is enough of it."""
LEAST_TILES = 2
"""Tiles of a unit, below which packing its panel takes too long."""


class WeightGradientPlan:
    """The geometry of a convolution, and the tiles and units of the gradient of its weight."""

    def __init__(self, step: OpInstr, target: Target) -> None:
        op, (x, slopes, *_) = step.op, step.required
        assert isinstance(op, ConvWeightGradient)
        self.x, self.slopes, self.target = x, slopes, target
        self.groups, self.batch = op.groups, x.type.shape[0]
        self.inner = x.type.shape[-1] // op.groups
        self.results = slopes.type.shape[-1] // op.groups
        facts = (
            slopes.type.shape[1:-1],
            x.type.shape[1:-1],
            op.kernel,
            op.strides,
            op.dilations,
            op.pads,
            x.strides[1:-1],
        )
        self.axes = [WindowAxis(*values) for values in zip(*facts, strict=False)]
        self.taps = math.prod(op.kernel)
        self.sums = sum_type(x.type.dtype)
        self.lanes = full_lanes(target, self.sums)
        whole = 2.0 * largest(op.work(step.outs[0].type, [x.type, slopes.type]))
        self.work = whole * self._share_seen(op) if self.by_tap else whole

    def _share_seen(self, op: ConvWeightGradient) -> float:
        """The part of all taps of all windows that lies in x, not in its padding."""
        share, windows = 1.0, Windows(op.kernel, op.strides, op.pads, op.dilations)
        for number, axis in enumerate(self.axes):
            extent, count = largest(axis.extent), largest(axis.count)
            seen = sum(len(windows.seen(number, tap, extent, count)) for tap in range(axis.kernel))
            share *= seen / max(1, axis.kernel * count)
        return share

    @property
    def cost(self) -> float:
        """The cost of its products, or of its memory."""
        read = self.x.type.size + self.slopes.type.size + self.columns * self.results * self.groups
        return memory_bound(self.work, largest(read) * self.sums.itemsize)

    @property
    def by_tap(self) -> bool:
        """Whether the columns of a panel are channels that one tap sees."""
        return self.inner >= self.lanes or self.taps == 1

    @property
    def sets(self) -> int:
        """Sets of columns, of which each is cut into panels: one for each tap, or one for all."""
        return self.taps if self.by_tap else 1

    @property
    def columns(self) -> int:
        """Columns of all sets."""
        return self.taps * self.inner

    @cached_property
    def panels(self) -> Panels:
        """The panels of a set."""
        columns = self.columns // self.sets
        lanes = fitting_lanes(self.lanes, columns)
        return Panels.narrowed(columns, lanes, min(VECTORS, max(1, -(-columns // lanes))))

    @property
    def unit_panels(self) -> int:
        """Panels of a set that are units of their own: all, or none if they are packed at once."""
        return self.panels.count if self.by_tap else 1

    @property
    def packed_line(self) -> int:
        """Elements that are packed for a window, where all panels are packed at once."""
        return -(-self.panels.padded // self.lanes) * self.lanes

    @property
    def tap_stride(self) -> int:
        """Elements between the columns of neighbouring taps in a row of sums."""
        return self.panels.padded if self.by_tap else self.inner

    @property
    def line(self) -> int:
        """Elements of a row of sums, those of all sets."""
        return self.sets * self.panels.padded

    @cached_property
    def rows(self) -> int:
        """Rows of a tile, at most."""
        return min(MOST_ROWS, most_rows(self.target, self.panels.vectors, self.sums))

    @property
    def tiles(self) -> int:
        """Tiles that the results of a group are cut into."""
        return -(-self.results // self.rows)

    @property
    def runs(self) -> list[TileRun]:
        """The tiles of each height."""
        return split_rows(self.results, self.rows)

    def rows_of(self, e: Emitter, first: Index, last: Index) -> tuple[Value, Value]:
        """The first row of a tile, and the first of the tile after the last."""
        low = self.runs[-1]
        begin, end = (
            e.index(tile) * low.rows + smaller(e.index(tile), low.shift) for tile in (first, last)
        )
        return begin, end

    @property
    def parts(self) -> int:
        """Parts that tiles are cut into, where units were too few."""
        wanted = -(-WANTED_UNITS // max(1, self.groups * self.sets * self.unit_panels))
        return max(1, min(wanted, self.tiles // LEAST_TILES)) if self.by_tap else 1

    @cached_property
    def block(self) -> int:
        """Windows of a block at most: what is packed for them stays in the first cache."""
        fitting = self.target.caches.l1 // 2 // (self.panels.width * self.sums.itemsize)
        return max(LEAST_WINDOWS, min(MOST_WINDOWS, fitting))

    @property
    def lines_of_block(self) -> int:
        """Lines of windows in a block."""
        return max(1, self.block // max(1, largest(self.axes[-1].count)))

    @property
    def lines(self) -> int:
        """Lines of windows along the last axis."""
        return self.batch * math.prod(axis.count for axis in self.axes[:-1])

    @property
    def cuts_lines(self) -> bool:
        """Whether even a line of windows may be more than a block."""
        return largest(self.axes[-1].count) > self.block

    @property
    def joins(self) -> bool:
        """Whether sums lie in memory that units share, and are put together in the end."""
        return self.chunks > 1 or not self.by_tap

    @property
    def is_single(self) -> bool:
        """Whether all windows are one block."""
        few = largest(self.lines) <= self.lines_of_block and not self.cuts_lines
        return few and not self.joins

    @cached_property
    def chunks(self) -> int:
        """Chunks of blocks: what a chunk reads stays in the second cache, and units are enough."""
        blocks = -(-largest(self.lines) // self.lines_of_block)
        windows = largest(self.lines) * largest(self.axes[-1].count)
        size = self.sums.itemsize * self.groups
        read = windows * (self.inner + self.results) * size
        made = self.line * self.results * size
        fitting = -(-read // max(1, self.target.caches.l2 // 2))
        wanted = fitting if self.by_tap else WANTED_UNITS
        return max(1, min(wanted, WANTED_UNITS, blocks, read // (2 * max(1, made))))

    @property
    def units(self) -> int:
        """Chunks, of each the sets of all groups, of each the panels, of each the parts."""
        return self.chunks * self.groups * self.sets * self.unit_panels * self.parts

    @property
    def offset_type(self) -> DType:
        """The type of distances in the slopes."""
        return i32 if largest(self.slopes.root.type.size) < 1 << 31 else i64

    @property
    def needs(self) -> KernelNeeds:
        """Memory for packed columns, for where their slopes lie, and for sums of several blocks."""
        line = self.panels.width if self.by_tap else self.packed_line
        scratch = {
            "packed": Storage(self.sums, self.block * line),
            "offsets": Storage(self.offset_type, self.block),
        }
        if self.joins:
            size = self.chunks * self.groups * self.results * self.line
            return KernelNeeds({"sums": Storage(self.sums, size)}, scratch)
        if not self.is_single:
            scratch["sums"] = Storage(self.sums, self.results * self.panels.width)
        return KernelNeeds(scratch=scratch)
