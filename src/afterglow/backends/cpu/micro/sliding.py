"""Windows that slide over x [N, spatial…, C], as kernels walk through them.

Results are made in *tiles*: a few neighbouring columns of a row, a vector of channels at a time.
Where windows reach over the edge of x, the places beyond it are left out: along columns when the
code is written, along the other axes when it runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import Enum
from itertools import pairwise, product

from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    Index,
    Pointer,
    Value,
    convert,
    first_lanes,
    larger,
    quotient,
    smaller,
)
from afterglow.backends.cpu.micro.kernel import Phase
from afterglow.backends.cpu.micro.lanes import fitting_lanes
from afterglow.backends.cpu.micro.partial_sums import TERMS
from afterglow.backends.cpu.micro.rows import Row, split
from afterglow.backends.cpu.target import Target
from afterglow.instr import Buffer
from afterglow.ops.windows import Windows
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType, f32, i8, u8
from afterglow.types.extent import (
    UndecidedExtentError,
    at_least,
    is_ranged,
    larger_extent,
    smaller_extent,
    smallest,
)

WIDEST_KERNEL = 16
"""Places of a window along columns that are written one by one; more are a loop."""
MOST_EDGE_COLUMNS = 16
"""Columns at the edges that have code of their own; more share a loop."""
WANTED_UNITS = 16
"""Channels are shared out if there are fewer rows than this."""
LEAST_CHANNELS = 32
"""Channels that a unit has at least."""


@dataclass(frozen=True)
class WindowAxis:
    """Windows along one axis of x, whose neighbouring elements lie `step` apart."""

    count: int
    extent: int
    kernel: int
    stride: int
    dilation: int
    begin: int
    step: int

    @property
    def reach(self) -> int:
        """How far one window reaches, holes included."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def inside(self) -> tuple[int, int]:
        """The first of the windows that lie inside x, and the one behind the last."""
        first = smaller_extent(self.count, -(-self.begin // self.stride))
        room = self.extent + self.begin - self.reach
        last = smaller_extent(self.count, room // self.stride + 1)
        return first, larger_extent(first, last)

    @property
    def has_edges(self) -> bool:
        """Whether some windows may reach beyond x."""
        return self.inside != (0, self.count)

    def first(self, window: Index) -> Index:
        """The place in x of the first element of a window; it may lie outside."""
        return window * self.stride - self.begin

    def sees(self, window: int, tap: int) -> bool:
        """Whether a place of a window lies inside x."""
        return 0 <= window * self.stride - self.begin + tap * self.dilation < self.extent

    def knows(self, windows: Iterable[int]) -> bool:
        """Whether what windows see follows from the bounds of extents."""
        try:
            for window, tap in product(windows, range(self.kernel)):
                self.sees(window, tap)
        except UndecidedExtentError:
            return False
        return True

    def taps(self, e: Emitter, window: Index) -> tuple[Index, Index]:
        """The places of a window that lie inside x: from the one to before the other."""
        if not self.has_edges:
            return 0, self.kernel
        first, round_up = e.index(self.first(window)), self.dilation - 1
        low = _quotient(round_up - first, self.dilation)
        high = _quotient(self.extent + round_up - first, self.dilation)
        return larger(low, 0), smaller(high, self.kernel)


def _quotient(count: Value, divisor: int) -> Value:
    return count if divisor == 1 else quotient(count, divisor)


@dataclass(frozen=True)
class WindowRun:
    """Neighbouring tiles of columns, all of one width.

    The columns of a single tile are known, so that their windows may reach over the edge. If
    `clipped`, any may: tiles have one column, and what it sees is found when the code runs.
    """

    start: int
    width: int
    tiles: int
    clipped: bool = False

    @property
    def is_single(self) -> bool:
        """Whether it is one tile, of which the columns are known."""
        return self.tiles == 1


def cut_columns(axis: WindowAxis, width: int) -> list[WindowRun]:
    """Tiles for all columns: single ones up to the last edge, a run of them inside."""
    if is_ranged(axis.count) or is_ranged(axis.extent):
        return _cut_ranged(axis, width)
    inside = range(*axis.inside)
    edges = axis.count - len(inside)
    if edges > MOST_EDGE_COLUMNS or axis.kernel > WIDEST_KERNEL:
        return _cut_clipped(axis, width)
    first = min(axis.count, -(-inside.start // width) * width)
    tiles = max(0, inside.stop - first) // width
    if width > 2 and tiles > 1 and first + tiles * width + 1 == axis.count:
        tiles -= 1  # no single column is left over: it would not keep the machine busy
    last = first + tiles * width
    within = [WindowRun(first, width, tiles)] if tiles else []
    return [
        *_cut_evenly(range(first), width),
        *within,
        *_cut_evenly(range(last, axis.count), width),
    ]


def _cut_clipped(axis: WindowAxis, width: int) -> list[WindowRun]:
    """Tiles where there are many windows at the edges."""
    inside = range(*axis.inside)
    tiles, rest = divmod(len(inside), width)
    runs = (
        WindowRun(0, 1, inside.start, clipped=True),
        WindowRun(inside.start, width, tiles),
        WindowRun(inside.stop - rest, rest, min(rest, 1)),
        WindowRun(inside.stop, 1, axis.count - inside.stop, clipped=True),
    )
    return [run for run in runs if run.tiles]


def _cut_ranged(axis: WindowAxis, width: int) -> list[WindowRun]:
    """Tiles for a ranged number of columns.

    The columns at an edge are single tiles, if what they see is the same at all extents. Those
    inside are tiles of the whole width, then of half of it and so on.
    """
    first, last = axis.inside
    if at_least(last, width) and not is_ranged(first) and 0 < first < width:
        first = width
    runs = [*_edge(axis, 0, first, width)]
    while width:
        tiles = (last - first) // width
        runs.append(WindowRun(first, width, tiles))
        first, width = first + width * tiles, width // 2
    runs += _edge(axis, last, axis.count - last, width=MOST_EDGE_COLUMNS)
    return [run for run in runs if run.tiles != 0]


def _edge(axis: WindowAxis, start: int, count: int, width: int) -> list[WindowRun]:
    """Tiles for columns of which some may reach over the edge, or all of them."""
    few = not is_ranged(count) and count <= MOST_EDGE_COLUMNS and axis.kernel <= WIDEST_KERNEL
    if few and axis.knows(start + place for place in range(count)):
        cut = _cut_evenly(range(count), width)
        return [WindowRun(start + run.start, run.width, 1) for run in cut]
    return [WindowRun(start, 1, count, clipped=True)]


def _cut_evenly(columns: range, width: int) -> list[WindowRun]:
    """Single tiles of about the same width."""
    tiles = -(-len(columns) // width)
    borders = [columns.start + len(columns) * i // max(1, tiles) for i in range(tiles + 1)]
    return [WindowRun(start, end - start, 1) for start, end in pairwise(borders)]


@dataclass(frozen=True)
class WindowField:
    """x and the windows on it, along two spatial axes or more: the last are columns."""

    batch: int
    batch_step: int
    axes: tuple[WindowAxis, ...]
    channels: int
    channel_step: int

    @staticmethod
    def of(windows: Windows, x: Buffer) -> WindowField:
        """The field of a buffer; x with one spatial axis gets columns of a single element."""
        batch, *extents, channels = x.type.shape
        batch_step, *steps, channel_step = x.strides
        axes = [
            WindowAxis(*facts)
            for facts in zip(
                windows.counts(extents),
                extents,
                windows.kernel,
                windows.strides,
                windows.dilations,
                windows.begins,
                steps,
                strict=True,
            )
        ]
        while len(axes) < 2:
            axes.append(WindowAxis(1, 1, 1, 1, 1, 0, 0))
        return WindowField(batch, batch_step, tuple(axes), channels, channel_step)

    def in_words(self, size: int) -> WindowField:
        """The same field of elements that are as large as `size` of these, which neighbour."""
        axes = tuple(replace(axis, step=axis.step // size) for axis in self.axes)
        return replace(
            self, batch_step=self.batch_step // size, axes=axes, channels=self.channels // size
        )

    @property
    def columns(self) -> WindowAxis:
        """The last spatial axis."""
        return self.axes[-1]

    @property
    def rows(self) -> int:
        """How many rows of results there are, through images and all axes but the last."""
        return self.batch * math.prod(axis.count for axis in self.axes[:-1])

    def start(self, x: Pointer, image: Index, windows: Sequence[Index]) -> Pointer:
        """Where the first element lies that the windows at some places of the first axes see."""
        place = x + image * self.batch_step
        for axis, window in zip(self.axes, windows, strict=False):
            place = place + axis.first(window) * axis.step
        return place


def place_of_row(field: WindowField, row: Index) -> tuple[Index, list[Index]]:
    """The image of a row of results, and its place along all axes but the last."""
    places: list[Index] = []
    for axis in reversed(field.axes[:-1]):
        row, place = split(row, axis.count)
        places.insert(0, place)
    return row, places


def fold_taps(
    e: Emitter,
    ranges: Sequence[tuple[Index, Index]],
    states: list[Value],
    body: Callable[[list[Index], list[Value]], list[Value]],
) -> list[Value]:
    """Carry states through all places of a window along some axes, the last axis fastest."""
    if not ranges:
        return body([], states)
    (low, high), *others = ranges

    def step(tap: Value, carried: list[Value]) -> list[Value]:
        return fold_taps(e, others, carried, lambda taps, inner: body([tap, *taps], inner))

    return e.fold(high, states, step, start=low)


def fold_rows(
    e: Emitter,
    ranges: Sequence[tuple[Index, Index]],
    initial: list[Value],
    body: Callable[[list[Index], list[Value]], list[Value]],
    combine: Callable[[Value, Value], Value],
) -> list[Value]:
    """As `fold_taps`, but each row of the window is folded by itself, and then joins the others.

    Very long rows are folded in blocks.
    """
    if not ranges:
        return body([], initial)
    *outer, (low, high) = ranges

    def row(taps: list[Index], totals: list[Value]) -> list[Value]:
        def block(first: Value, totals: list[Value]) -> list[Value]:
            last = smaller(first + TERMS, high)
            found = e.fold(last, initial, lambda tap, some: body([*taps, tap], some), start=first)
            return [combine(a, b) for a, b in zip(totals, found, strict=True)]

        return e.fold(high, totals, block, start=low, step=TERMS)

    return fold_taps(e, outer, initial, row)


def arithmetic_type(dtype: DType) -> DType:
    """The element type in which elements of a type are computed."""
    if dtype.is_narrow_float:
        return f32
    if dtype.is_integer and dtype.bits < 8:
        return i8 if dtype.is_signed else u8
    return dtype


class Tail(Enum):
    """How channels are computed that do not fill a vector."""

    SAME = "the same"
    """As all others: under a mask, which costs nothing."""
    MASKED = "masked"
    """Under a mask, which costs something, apart from the others."""
    SINGLE = "single"
    """One by one."""

    @staticmethod
    def of(target: Target, dtype: DType) -> Tail:
        """What suits a machine, for elements of some type in memory."""
        if target.avx512:
            return Tail.SAME
        return Tail.MASKED if "avx2" in target.features and dtype.bits >= 32 else Tail.SINGLE


@dataclass(frozen=True)
class Channels:
    """How channels are cut: into blocks, one a unit, and these into vectors."""

    count: int
    lanes: int
    blocks: int
    tail: Tail

    @staticmethod
    def of(
        target: Target, count: int, dtype: DType, stored: DType, rows: int, most: int = 1
    ) -> Channels:
        """Vectors that suit the arithmetic: up to `most` registers for each, if that comes out."""
        lanes = fitting_lanes(max(1, target.vector_bits // max(dtype.bits, 8)), count)
        while most > 1 and count % (lanes * most) != 0:
            most //= 2
        lanes *= most
        wanted = -(-WANTED_UNITS // max(1, smallest(rows)))
        blocks = max(1, min(wanted, smallest(count) // max(lanes, LEAST_CHANNELS)))
        return Channels(count, lanes, blocks, Tail.of(target, stored))

    @property
    def block(self) -> int:
        """Channels of a block: whole vectors."""
        vectors = -(-self.count // self.lanes)
        return -(-vectors // self.blocks) * self.lanes

    def bounds(self, e: Emitter, block: Index) -> tuple[Index, Index]:
        """The first channel of a block, and the one behind its last."""
        if self.blocks == 1:
            return 0, self.count
        start = e.index(block * self.block)
        return start, smaller(start + self.block, self.count)

    def each(
        self,
        e: Emitter,
        bounds: tuple[Index, Index],
        body: Callable[[Value, int, Value | None], None],
    ) -> None:
        """Repeat a body for each vector: it gets a channel, the lanes, and a mask of them."""
        (start, stop), rest = bounds, self.count % self.lanes
        if rest != 0 and self.tail is Tail.SAME:
            with e.loop(stop, start=start, step=self.lanes, name="channel") as channel:
                body(channel, self.lanes, first_lanes(e.index(stop) - channel, self.lanes))
            return
        whole = e.index(stop)
        if rest != 0:
            whole = smaller(whole, self.count - rest)
        with e.loop(whole, start=start, step=self.lanes, name="channel") as channel:
            body(channel, self.lanes, None)
        if rest != 0:
            self._each_left(e, larger(whole, e.index(start)), stop, body)

    def _each_left(
        self,
        e: Emitter,
        start: Value,
        stop: Index,
        body: Callable[[Value, int, Value | None], None],
    ) -> None:
        step = self.lanes if self.tail is Tail.MASKED else 1
        with e.loop(stop, start=start, step=step, name="channel") as channel:
            mask = None
            if step > 1:
                mask = first_lanes(e.index(stop) - channel, step)
            body(channel, step, mask)


def load(row: Row, channel: Index, lanes: int, mask: Value | None, dtype: DType) -> Value:
    """Neighbouring channels, as the type that they are computed in."""
    return convert(row.load(channel, lanes, mask).splat(lanes), dtype)


def each_row(
    p: Phase,
    rows: int,
    channels: Channels,
    body: Callable[[Index, tuple[Index, Index]], None],
) -> None:
    """Repeat a body for each unit: it gets a row, and the channels from the one to the other."""
    with p.units() as unit:
        row, block = split(unit, channels.blocks)
        body(row, channels.bounds(p.e, block))


def each_tile(
    e: Emitter, runs: Sequence[WindowRun], body: Callable[[WindowRun, Index], None]
) -> None:
    """Repeat a body for each tile of columns: it gets its run and its first column."""
    for run in runs:
        with e.loop(run.start + run.width * run.tiles, start=run.start, step=run.width) as column:
            body(run, column)
