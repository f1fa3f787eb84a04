"""The largest element of each window, and where it is."""

from __future__ import annotations

import math
from copy import copy

from afterglow.backends.cpu.kernels.pooling import accepts_pooling, lowest
from afterglow.backends.cpu.kernels.table import kernel
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    clamp,
    convert,
    is_nan,
    quotient,
    select,
)
from afterglow.backends.cpu.micro.cost import INDEXED_TAP
from afterglow.backends.cpu.micro.kernel import Kernel, Phase
from afterglow.backends.cpu.micro.rows import Row
from afterglow.backends.cpu.micro.sliding import (
    Channels,
    WindowAxis,
    WindowField,
    arithmetic_type,
    each_row,
    fold_taps,
    load,
    place_of_row,
)
from afterglow.ops.pooling import MaxPoolWithIndices
from afterglow.types.dtype import DType, i64
from afterglow.types.extent import larger_extent


@kernel(MaxPoolWithIndices, accepts=accepts_pooling)
def write_pool_with_indices(k: Kernel) -> None:
    """Write a kernel that finds the largest element of each window, and where it is."""
    x, op = k.step.required[0], k.step.op
    assert isinstance(op, MaxPoolWithIndices)
    field, dtype = WindowField.of(op.windows, x), arithmetic_type(x.type.dtype)
    channels = Channels.of(k.target, field.channels, dtype, x.type.dtype, field.rows)
    work = INDEXED_TAP * k.step.outs[0].type.size * math.prod(op.kernel)
    with k.phase(field.rows * channels.blocks, work) as p:
        writer = _Writer(p, field, channels, p.pointer(x), dtype)
        each_row(p, field.rows, channels, writer.write_row)


class _Writer:
    """The phase while it is being written."""

    def __init__(
        self, p: Phase, field: WindowField, channels: Channels, x: Pointer, dtype: DType
    ) -> None:
        self.p, self.field, self.channels, self.x, self.dtype = p, field, channels, x, dtype
        self.values, self.indices = p.sink(0), p.sink(1)

    def write_row(self, row: Index, bounds: tuple[Index, Index]) -> None:
        """Write all windows of a row."""
        image, windows = place_of_row(self.field, row)
        with self.p.e.loop(self.field.columns.count, name="column") as column:
            search = WindowSearch(
                self.p, self.field, (self.dtype, i64), self.x, image, [*windows, column]
            )
            self._write_window(search, row * self.field.columns.count + column, bounds)

    def _write_window(
        self, search: WindowSearch, number: Index, bounds: tuple[Index, Index]
    ) -> None:
        best, where = self.values.row(number), self.indices.row(number)

        def write_vector(channel: Value, lanes: int, mask: Value | None) -> None:
            value, index = search.find(channel, lanes, mask)
            best.put(channel, value, mask)
            where.put(channel, index, mask)

        self.channels.each(self.p.e, bounds, write_vector)


class WindowSearch:
    """The search for the largest element of one window, in each channel.

    `dtypes` are those of elements and of their places.
    """

    def __init__(
        self,
        p: Phase,
        field: WindowField,
        dtypes: tuple[DType, DType],
        x: Pointer,
        image: Index,
        windows: list[Index],
    ) -> None:
        self.p, self.field, (self.dtype, self.place_type) = p, field, dtypes
        pairs = list(zip(field.axes, windows, strict=True))
        self.ranges = [axis.taps(p.e, window) for axis, window in pairs]
        self.firsts = [axis.first(window) for axis, window in pairs]
        self.start = field.start(x, image, windows)
        inside = [_first_inside(p, axis, window) for axis, window in pairs]
        self.index = self._number(inside)

    def inside(self) -> WindowSearch:
        """The search of a window that does not reach over the edge."""
        found = copy(self)
        found.ranges = [(0, axis.kernel) for axis in self.field.axes]
        return found

    def places(self, taps: list[Index]) -> list[Index]:
        """Where a place of the window lies in x, along each axis."""
        axes = zip(self.field.axes, taps, self.firsts, strict=True)
        return [first + tap * axis.dilation for axis, tap, first in axes]

    def _number(self, places: list[Index]) -> Value:
        """The number of a place of x, in row-major order."""
        number: Index = 0
        for axis, place in zip(self.field.axes, places, strict=True):
            number = number * axis.extent + place
        return convert(self.p.e.index(number), self.place_type)

    def find(self, channel: Index, lanes: int, mask: Value | None) -> tuple[Value, Value]:
        """The largest elements of neighbouring channels, and their places."""
        start, field = self.start + channel * self.field.channel_step, self.field
        least = self.p.e.constant(self.dtype, lowest(self.dtype), lanes)

        def step(taps: list[Index], states: list[Value]) -> list[Value]:
            best, index = states
            place = start
            for axis, tap in zip(field.axes, taps, strict=True):
                place = place + tap * (axis.dilation * axis.step)
            x = load(Row(place, field.channel_step), 0, lanes, mask, self.dtype)
            better = best < x
            if self.dtype.is_float:
                better = better | is_nan(x)
            here = self._number(self.places(taps)).splat(lanes)
            return [select(better, x, best), select(better, here, index)]

        best, index = fold_taps(self.p.e, self.ranges, [least, self.index.splat(lanes)], step)
        return best, index


def _first_inside(p: Phase, axis: WindowAxis, window: Index) -> Index:
    """The first place of a window that lies inside x."""
    first = p.e.index(axis.first(window))
    missing = quotient(axis.dilation - 1 - first, axis.dilation)
    place = select(first < 0, first + missing * axis.dilation, first)
    return clamp(place, None, larger_extent(axis.extent - 1, 0))
