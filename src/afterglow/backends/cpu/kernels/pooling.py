"""Pooling: each window of x [N, spatial…, C] becomes one element, each channel on its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce

import numpy as np

from afterglow.backends.cpu.kernels.table import kernel
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    absolute,
    larger,
    larger_bytes,
    maximum,
    sqrt,
)
from afterglow.backends.cpu.llvm.math import pow
from afterglow.backends.cpu.micro.fusion import Sink
from afterglow.backends.cpu.micro.kernel import Kernel, Phase
from afterglow.backends.cpu.micro.partial_sums import FEW_TERMS
from afterglow.backends.cpu.micro.rows import Row
from afterglow.backends.cpu.micro.sliding import (
    WIDEST_KERNEL,
    Channels,
    WindowAxis,
    WindowField,
    WindowRun,
    arithmetic_type,
    cut_columns,
    each_row,
    each_tile,
    fold_rows,
    fold_taps,
    load,
    place_of_row,
)
from afterglow.instr import Buffer, OpInstr, row_major
from afterglow.ops.pooling import AvgPool, LpPool, MaxPool, Pool
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType, i8, i32, u8
from afterglow.types.extent import is_ranged, largest

WORD = 4
"""Bytes of a register."""
TILE_WIDTH = 4
"""Columns that are made at once: they share what their windows have in common."""
MOST_VECTORS = 8
"""Vectors of channels that are reduced at once, where there is only one column."""
MOST_FACTORS = 8
"""Powers up to this one are products: each factor is an instruction of its own."""


@dataclass(frozen=True)
class WindowReduction:
    """How the elements of a window become one: `take` each, `combine` two, `finish` the last."""

    initial: float
    combine: Callable[[Value, Value], Value]
    take: Callable[[Value], Value] = lambda x: x
    finish: Callable[[Value], Value] = lambda x: x


def accepts_pooling(step: OpInstr) -> bool:
    """Whether the elements are floats, or integers of whole bytes."""
    x = step.required[0]
    return x.type.dtype.is_float or x.type.dtype.bits >= 8


@kernel(MaxPool, AvgPool, LpPool, accepts=accepts_pooling)
def write_pool(k: Kernel) -> None:
    """Write a kernel that reduces each window to a number."""
    pool = _WindowPool(k)
    with k.phase(pool.field.rows * pool.channels.blocks, pool.work) as p:
        each_row(p, pool.field.rows, pool.channels, _Writer(pool, p).write_row)


class _WindowPool:
    """Windows reduced tile by tile: first each column of the window, then its columns."""

    def __init__(self, k: Kernel) -> None:
        x, op = k.step.required[0], k.step.op
        assert isinstance(op, Pool)
        self.x, self.op = x, op
        self.field = WindowField.of(op.windows, x)
        self.by_words = _goes_by_words(k, x)
        self.dtype = i32 if self.by_words else arithmetic_type(x.type.dtype)
        if self.by_words:
            self.field = self.field.in_words(WORD)
        self.reduction = _of_words(x.type.dtype) if self.by_words else _reduction(op, self.dtype)
        self.width = self._tile_width()
        self.channels = Channels.of(
            k.target,
            self.field.channels,
            self.dtype,
            i32 if self.by_words else x.type.dtype,
            self.field.rows,
            MOST_VECTORS if self.width == 1 and not self.by_words else 1,
        )
        taps = math.prod(axis.kernel for axis in self.field.axes)
        self.work = 2.0 * k.step.outs[0].type.size * taps

    def _tile_width(self) -> int:
        columns = self.field.columns
        shares = columns.stride < columns.reach <= WIDEST_KERNEL
        return min(TILE_WIDTH, largest(columns.count)) if shares else 1


class _Writer:
    """The phase while it is being written."""

    def __init__(self, pool: _WindowPool, p: Phase) -> None:
        self.pool, self.field, self.e, self.p = pool, pool.field, p.e, p
        self.x, self.scale = p.pointer(pool.x), _Scale(p, pool)
        self.sink: Sink | _Words = p.sink()
        if pool.by_words:
            self.x, self.sink = self.x.cast(i32), _Words(p, pool.field.channels)
        self.runs = cut_columns(pool.field.columns, pool.width)

    def write_row(self, row: Index, bounds: tuple[Index, Index]) -> None:
        """Write all tiles of a row."""
        field = self.field
        image, windows = place_of_row(field, row)
        start = field.start(self.x, image, windows)
        axes = zip(field.axes[:-1], windows, strict=True)
        ranges = [axis.taps(self.e, window) for axis, window in axes]
        self.scale.enter(windows)

        def write_tile(run: WindowRun, column: Index) -> None:
            places = [column + j for j in range(run.width)]
            rows = [self.sink.row(row * field.columns.count + place) for place in places]
            factors = [self.scale.of(place) for place in places]

            def write_vector(channel: Value, lanes: int, mask: Value | None) -> None:
                place = start + channel * field.channel_step
                tile = _Tile(self.pool, self.p, run, column, place.settled())
                totals = tile.reduce(ranges, lanes, mask)
                for out, total, factor in zip(rows, totals, factors, strict=True):
                    scaled = total if factor is None else total * factor
                    out.put(channel, self.pool.reduction.finish(scaled), mask)

            self.pool.channels.each(self.e, bounds, write_vector)

        each_tile(self.e, self.runs, write_tile)


@dataclass(frozen=True)
class _Tile:
    """One tile while it is being written."""

    pool: _WindowPool
    p: Phase
    run: WindowRun
    column: Index
    start: Pointer

    @property
    def axis(self) -> WindowAxis:
        """The windows along columns."""
        return self.pool.field.columns

    def reduce(
        self, ranges: list[tuple[Index, Index]], lanes: int, mask: Value | None
    ) -> list[Value]:
        """The reduced windows of the tile's columns."""
        if self.run.clipped or self.axis.kernel > WIDEST_KERNEL:
            return self._reduce_in_loop(ranges, lanes, mask)
        seen = [self._seen(j) for j in range(self.run.width)]
        columns = sorted({place for places in seen for place in places})
        initial = [self._initial(lanes) for _ in columns]

        def step(taps: list[Index], states: list[Value]) -> list[Value]:
            return [
                self._combined(state, taps, place, lanes, mask)
                for state, place in zip(states, columns, strict=True)
            ]

        reduced = self._fold(ranges, initial, step)
        by_place = dict(zip(columns, reduced, strict=True))
        combine = self.pool.reduction.combine
        return [
            reduce(combine, [by_place[place] for place in places])
            if places
            else self._initial(lanes)
            for places in seen
        ]

    def _reduce_in_loop(
        self, ranges: list[tuple[Index, Index]], lanes: int, mask: Value | None
    ) -> list[Value]:
        axis = self.axis
        across = axis.taps(self.p.e, self.column) if self.run.clipped else (0, axis.kernel)

        def step(taps: list[Index], states: list[Value]) -> list[Value]:
            *outer, tap = taps
            return [
                self._combined(state, outer, tap * axis.dilation + j * axis.stride, lanes, mask)
                for j, state in enumerate(states)
            ]

        initial = [self._initial(lanes) for _ in range(self.run.width)]
        return self._fold([*ranges, across], initial, step)

    def _fold(
        self,
        ranges: list[tuple[Index, Index]],
        initial: list[Value],
        step: Callable[[list[Index], list[Value]], list[Value]],
    ) -> list[Value]:
        """Fold all places of the windows; sums of large ones row by row, for smaller errors."""
        pool = self.pool
        if isinstance(pool.op, MaxPool) or math.prod(pool.op.kernel) <= FEW_TERMS:
            return fold_taps(self.p.e, ranges, initial, step)
        return fold_rows(self.p.e, ranges, initial, step, pool.reduction.combine)

    def _seen(self, j: int) -> list[int]:
        """The places that the window of a column sees, counted from the tile's first."""
        axis, run = self.axis, self.run
        return [
            j * axis.stride + tap * axis.dilation
            for tap in range(axis.kernel)
            if not run.is_single or axis.sees(run.start + j, tap)
        ]

    def _initial(self, lanes: int) -> Value:
        return self.p.e.constant(self.pool.dtype, self.pool.reduction.initial, lanes)

    def _combined(
        self, state: Value, taps: list[Index], place: Index, lanes: int, mask: Value | None
    ) -> Value:
        field, reduction = self.pool.field, self.pool.reduction
        pointer = self.start
        for axis, tap in zip(field.axes, taps, strict=False):
            pointer = pointer + tap * (axis.dilation * axis.step)
        pointer = pointer + self.axis.first(self.column) * self.axis.step
        pointer = pointer + place * self.axis.step
        row = Row(pointer, field.channel_step)
        return reduction.combine(state, reduction.take(load(row, 0, lanes, mask, self.pool.dtype)))


def _row_major(field: WindowField, windows: list[Index]) -> Index:
    number: Index = 0
    for axis, window in zip(field.axes, windows, strict=False):
        number = number * axis.count + window
    return number


class _Scale:
    """The factor that turns the sum of a window into its mean; None for other reductions.

    If extents are ranged, the elements of a window that count are counted when the code runs.
    """

    def __init__(self, p: Phase, pool: _WindowPool) -> None:
        self.e, self.field = p.e, pool.field
        self.constant: Value | None = None
        self.table: Pointer | None = None
        self.axes: list[WindowAxis] = []
        if not isinstance(pool.op, AvgPool):
            return
        if any(map(is_ranged, pool.x.type.shape[1:-1])):
            self._open_counted(p, pool, pool.op)
            return
        divisors = pool.op.divisors(pool.x.type.shape[1:-1])
        factors = (1.0 / divisors).astype(pool.dtype.numpy)
        if divisors.min() == divisors.max():
            self.constant = p.e.constant(pool.dtype, float(factors.flat[0]))
        else:
            self.table = p.table("factors", factors.reshape(-1))

    def _open_counted(self, p: Phase, pool: _WindowPool, op: AvgPool) -> None:
        self.axes = [_counted(axis, op, number) for number, axis in enumerate(self.field.axes)]
        sizes = np.arange(math.prod(axis.kernel for axis in self.axes) + 1)
        factors = (1.0 / np.maximum(sizes, 1)).astype(pool.dtype.numpy)
        if any(axis.has_edges for axis in self.axes):
            self.table = p.table("factors", factors)
        else:
            self.constant = p.e.constant(pool.dtype, float(factors[-1]))

    def enter(self, windows: list[Index]) -> None:
        """Go to a row of results: all windows have these places along all axes but the last."""
        if self.table is None:
            return
        if not self.axes:
            self.before = _row_major(self.field, windows)
            return
        self.before = 1
        for axis, window in zip(self.axes, windows, strict=False):
            self.before = self.before * self._seen(axis, window)

    def of(self, column: Index) -> Value | None:
        """The factor of a window of the row."""
        if self.table is None:
            return self.constant
        if not self.axes:
            return self.table.load(self.before * self.field.columns.count + column)
        return self.table.load(self.before * self._seen(self.axes[-1], column))

    def _seen(self, axis: WindowAxis, window: Index) -> Index:
        low, high = axis.taps(self.e, window)
        return larger(self.e.index(high) - low, 1)


def _counted(axis: WindowAxis, op: AvgPool, number: int) -> WindowAxis:
    """The windows along an axis over what counts: x, or x with its padding."""
    if not op.count_include_pad or number >= len(op.kernel):
        return axis
    end = op.windows.ends[number]
    return replace(axis, extent=axis.extent + axis.begin + end, begin=0)


def _goes_by_words(k: Kernel, x: Buffer) -> bool:
    """Whether the largest of bytes are found four at a time, as nothing else is done to them."""
    out = k.step.outs[0]
    bytes_ = isinstance(k.step.op, MaxPool) and x.type.dtype in (i8, u8)
    if not (bytes_ and k.target.bytes_of_scalars) or k.job.after or out in k.job.locals:
        return False
    fits = all(stride % WORD == 0 for stride in (*x.strides[:-1], x.type.shape[-1]))
    return fits and x.strides[-1] == 1 and out.strides == row_major(out.type.shape)


def _of_words(dtype: DType) -> WindowReduction:
    """The largest of each of the four bytes of words, that begin with the least."""
    signed = dtype.is_signed
    combine = partial(larger_bytes, signed=signed)
    return WindowReduction(-0x7F7F7F80 if signed else 0, combine)


class _Words:
    """The result as words: rows of them, which take what is put there."""

    def __init__(self, p: Phase, columns: int) -> None:
        self.pointer, self.columns = p.pointer(p.step.outs[0]).cast(i32), columns

    def row(self, number: Index) -> _WordRow:
        """One row."""
        return _WordRow(self.pointer + number * self.columns)


@dataclass(frozen=True)
class _WordRow:
    """A row of words."""

    start: Pointer

    def put(self, column: Index, word: Value, _: Value | None = None) -> None:
        """Store a word."""
        self.start.store(word, column)


def _reduction(op: Pool, dtype: DType) -> WindowReduction:
    match op:
        case MaxPool():
            return WindowReduction(lowest(dtype), maximum)
        case LpPool(p=p):
            return WindowReduction(
                0, lambda a, b: a + b, lambda x: _power(absolute(x), p), lambda x: _root(x, p)
            )
    return WindowReduction(0, lambda a, b: a + b)


def lowest(dtype: DType) -> float:
    """The least value of a type: no element is below it."""
    return -math.inf if dtype.is_float else int(np.iinfo(dtype.numpy).min)


def _power(x: Value, p: int) -> Value:
    if p > MOST_FACTORS:
        return pow(x, x.like(p))
    return reduce(lambda product, _: product * x, range(p - 1), x)


def _root(x: Value, p: int) -> Value:
    match p:
        case 1:
            return x
        case 2:
            return sqrt(x)
    return pow(x, x.like(1 / p))
