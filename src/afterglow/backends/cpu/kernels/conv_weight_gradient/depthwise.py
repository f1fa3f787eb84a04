"""The gradient of a depthwise convolution's weight: each channel by itself, vectors of channels.

The sums of the taps along the last axis stay in registers while windows go by. At the edges of x
each tap is asked whether it sees some of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from operator import add

from afterglow.backends.cpu.kernels.conv.columns import Columns, each_kind
from afterglow.backends.cpu.kernels.conv_weight_gradient.packing import (
    Block,
    each_block,
    masks_of,
    place_of,
    seen_windows,
    tap_indices,
)
from afterglow.backends.cpu.kernels.conv_weight_gradient.plan import (
    WANTED_UNITS,
    WeightGradientPlan,
)
from afterglow.backends.cpu.llvm.emitter import Emitter, Pointer, Value, convert, larger, smaller
from afterglow.backends.cpu.micro.cost import REDUCED_ELEMENT
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, Phase, Storage
from afterglow.backends.cpu.micro.panels import Panels
from afterglow.backends.cpu.micro.rows import Row, split
from afterglow.backends.cpu.micro.tile import multiply_add
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.extent import largest

MOST_VECTORS = 4
"""Vectors of channels side by side."""
MOST_TAPS = 16
"""Taps along the last axis whose sums are in registers at once; others go one by one."""


@dataclass(frozen=True)
class DepthwisePlan:
    """Units: chunks of windows, of each some taps, of each a panel of channels."""

    windows: WeightGradientPlan

    @property
    def panels(self) -> Panels:
        """The channels: as many vectors as there are registers for, with those of the taps."""
        windows, registers = self.windows, self.windows.target.vector_registers
        vectors = max(1, min(MOST_VECTORS, registers // (self.taps + 1) - 1))
        return Panels.narrowed(windows.groups, windows.lanes, vectors)

    @property
    def taps(self) -> int:
        """Taps along the last axis that a unit has."""
        kernel = self.windows.axes[-1].kernel
        return kernel if kernel <= MOST_TAPS else 1

    @property
    def sets(self) -> int:
        """Sets of taps."""
        return self.windows.taps // self.taps

    @property
    def line(self) -> int:
        """Elements of the sums of a tap."""
        return self.panels.padded

    @property
    def chunks(self) -> int:
        """Chunks that windows are cut into, where units were too few."""
        wanted = -(-WANTED_UNITS // (self.sets * self.panels.count))
        blocks = -(-largest(self.windows.lines) // self.windows.lines_of_block)
        return max(1, min(wanted, blocks))

    @property
    def units(self) -> int:
        """The number of units."""
        return self.chunks * self.sets * self.panels.count

    @property
    def needs(self) -> KernelNeeds:
        """Memory for the sums of chunks."""
        size = self.chunks * self.windows.taps * self.line
        return KernelNeeds({"sums": Storage(self.windows.sums, size)})


def write_depthwise(k: Kernel, plan: DepthwisePlan) -> None:
    """Write the phase that multiplies, and the one that adds the sums of chunks."""
    with k.phase(plan.units, plan.windows.work) as p:
        product = _Product(p, plan)
        with p.units() as unit:
            product.write(unit)
    _write_joining(k, plan)


class _Product:
    """The main phase while it is being written."""

    def __init__(self, p: Phase, plan: DepthwisePlan) -> None:
        self.e, self.plan, self.windows = p.e, plan, plan.windows
        self.x, self.slopes = p.pointer(plan.windows.x), p.pointer(plan.windows.slopes)
        self.sums = p.workspace("sums")

    def write(self, unit: Value) -> None:
        """One unit: a panel of channels, for taps that differ along the last axis alone."""
        e, plan, windows = self.e, self.plan, self.windows
        rest, panel = split(unit, plan.panels.count)
        chunk, number = (e.index(place) for place in split(rest, plan.sets))
        taps = tap_indices(e, windows.axes, number * plan.taps)
        pairs = zip(windows.axes[:-1], taps, strict=False)
        every = e.index(0), e.index(windows.axes[-1].count)
        seen = [*(seen_windows(axis, tap) for axis, tap in pairs), every]
        first = chunk * windows.taps + number * plan.taps
        for columns in each_kind(e, plan.panels, e.index(0), e.index(panel)):
            to = self.sums + first * plan.line + columns.first
            for tap in range(plan.taps):
                e.zero(to + tap * plan.line, columns.width)
            for block in each_block(e, windows, seen, chunk, plan.chunks):
                sums = iter(self._block(block, taps, columns))
                for tap in range(plan.taps):
                    for start, lanes in columns.vectors:
                        place = to + (tap * plan.line + start)
                        place.store(place.load(0, lanes) + next(sums))

    def _block(self, block: Block, taps: Sequence[Value], columns: Columns) -> list[Value]:
        """The sums of a block: by taps, of each the vectors of the panel."""
        e, windows = self.e, self.windows
        low, high = windows.axes[-1].inside
        left = smaller(larger(block.left, low), block.right)
        right = smaller(larger(left, high), block.right)
        spans = (block.left, left, False), (left, right, True), (right, block.right, False)

        def add_line(number: Value, sums: list[Value]) -> list[Value]:
            line = self._line(block, taps, columns, number)
            for start, stop, inside in spans:
                add = line.add_inside if inside else line.add_at_edge
                sums = e.fold(stop, sums, add, start=start, name="window")
            return sums

        zeros = [e.constant(windows.sums, 0, lanes) for lanes in columns.widths] * self.plan.taps
        return e.fold(block.last, zeros, add_line, start=block.first, name="line")

    def _line(
        self, block: Block, taps: Sequence[Value], columns: Columns, number: Value
    ) -> _WindowLine:
        """A line of windows, by its number."""
        x, slopes = self.windows.x, self.windows.slopes
        image, places = block.line(number)
        source = self.x + image * x.strides[0] + columns.first * x.strides[-1]
        factors = self.slopes + image * slopes.strides[0] + columns.first * slopes.strides[-1]
        axes = zip(self.windows.axes, slopes.strides[1:], places, taps, strict=False)
        for axis, stride, place, tap in axes:
            source = source + place_of(axis, place, tap) * axis.step
            factors = factors + place * stride
        return _WindowLine(self.e, self.plan, columns, source, factors, taps[-1])


@dataclass(frozen=True)
class _WindowLine:
    """A line of windows: where the channels of a panel begin in x and in the slopes."""

    e: Emitter
    plan: DepthwisePlan
    columns: Columns
    x: Pointer
    slopes: Pointer
    tap: Value
    """The first tap along the line."""

    def add_inside(self, window: Value, sums: list[Value]) -> list[Value]:
        """Add the products of a window whose taps all lie inside x."""
        slopes, index = self._slopes(window), self._index(window)
        taps = [slice(*span) for span in self._spans]
        return [v for t, own in enumerate(taps) for v in self._added(index, t, slopes, sums[own])]

    def add_at_edge(self, window: Value, sums: list[Value]) -> list[Value]:
        """Add the products of those taps of a window that lie inside x."""
        axis, slopes, index = self.plan.windows.axes[-1], self._slopes(window), self._index(window)
        made: list[Value] = []
        for tap, span in enumerate(self._spans):
            place, before = index + tap * axis.dilation, sums[slice(*span)]
            added = partial(self._added, index, tap, slopes, before)
            inside = (place >= 0) & (place < axis.extent)
            made += self.e.branch(inside, added, partial(list, before))
        return made

    @property
    def _spans(self) -> list[tuple[int, int]]:
        """Where the sums of each tap are among all."""
        count = len(self.columns.widths)
        return [(tap * count, (tap + 1) * count) for tap in range(self.plan.taps)]

    def _index(self, window: Value) -> Value:
        return place_of(self.plan.windows.axes[-1], window, self.tap)

    def _slopes(self, window: Value) -> list[Value]:
        """The slopes of a window."""
        *_, step, stride = self.plan.windows.slopes.strides
        return self._loaded(Row(self.slopes + window * step, stride))

    def _added(
        self, index: Value, tap: int, slopes: Sequence[Value], sums: Sequence[Value]
    ) -> list[Value]:
        """Sums with the products of one tap."""
        windows, axis = self.plan.windows, self.plan.windows.axes[-1]
        row = Row(self.x + (index + tap * axis.dilation) * axis.step, windows.x.strides[-1])
        return list(map(multiply_add, slopes, self._loaded(row), sums))

    def _loaded(self, row: Row) -> list[Value]:
        """The channels of a panel, in the type of sums."""
        places = zip(self.columns.vectors, masks_of(self.e, self.columns), strict=True)
        loads = [row.load(start, lanes, mask).splat(lanes) for (start, lanes), mask in places]
        return [convert(value, self.plan.windows.sums) for value in loads]


def _write_joining(k: Kernel, plan: DepthwisePlan) -> None:
    """Write the phase that adds the sums of all chunks; a unit is a channel."""
    windows = plan.windows
    work = REDUCED_ELEMENT * plan.chunks * windows.taps * windows.groups
    with k.phase(windows.groups, work, "joined") as p:
        sink, sums = p.sink(), p.workspace("sums")
        with p.units() as channel, p.e.loop(windows.taps, name="tap") as tap:
            first = sums + channel + tap * plan.line
            distance = windows.taps * plan.line
            total = reduce(add, (first.load(n * distance) for n in range(plan.chunks)))
            sink.row(channel * windows.taps + tap).put(0, total)
