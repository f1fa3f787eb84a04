"""Pooling of regions of images: each is cut into a grid of cells."""

from __future__ import annotations

import math
from dataclasses import replace

from afterglow.backends.cpu.kernels.table import kernel
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    clamp,
    convert,
    floor,
    fma,
    larger,
    maximum,
    quotient,
    select,
    smaller,
)
from afterglow.backends.cpu.llvm.emitter import ceil as round_up
from afterglow.backends.cpu.micro.index_check import IndexCheck
from afterglow.backends.cpu.micro.kernel import Kernel, Phase
from afterglow.backends.cpu.micro.rows import Row, split
from afterglow.backends.cpu.micro.sampling import SampleTap, corners_of, taps_of
from afterglow.backends.cpu.micro.sliding import (
    Channels,
    arithmetic_type,
    each_row,
    fold_taps,
    load,
)
from afterglow.ops.image import Interpolation
from afterglow.ops.regions import MARGIN, MaxRoiPool, RegionMode, RoiAlign, most_inside
from afterglow.ops.sampling import Axis, Border
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType

MOST_VECTORS = 4
"""Vectors of channels that are pooled at once: they share the computation of positions."""
GUESSED_SAMPLES = 4
"""Elements that a cell is thought to have, where that depends on the region."""


@kernel(RoiAlign)
def write_roi_align(k: Kernel) -> None:
    """Write a kernel that samples and pools the cells of regions."""
    _write(k, _Align)


@kernel(MaxRoiPool)
def write_max_roi_pool(k: Kernel) -> None:
    """Write a kernel that finds the largest elements of the cells of regions."""
    _write(k, _Largest)


def _write(k: Kernel, pooling: type[_Pooling]) -> None:
    regions, rows, _, count = k.step.outs[0].type.shape
    x = k.step.required[0]
    dtype, lines = arithmetic_type(x.type.dtype), regions * rows
    channels = Channels.of(k.target, count, dtype, x.type.dtype, lines, MOST_VECTORS)
    work = 16.0 * GUESSED_SAMPLES * k.step.outs[0].type.size
    with k.phase(lines * channels.blocks, work) as p:
        each_row(p, lines, channels, pooling(p, channels, dtype).write_line)


class _Pooling:
    """The phase while it is being written: a unit is a row of cells of a region."""

    def __init__(self, p: Phase, channels: Channels, dtype: DType) -> None:
        x, rois, *others = p.step.required
        self.e, self.channels, self.dtype = p.e, channels, dtype
        self.x, self.rois, self.sink = p.pointer(x), p.pointer(rois), p.sink()
        self.extents, self.strides = x.type.shape[1:-1], x.strides
        self.roi_strides = rois.strides
        self.cells = p.step.outs[0].type.shape[1:-1]
        self.images = [(p.pointer(b), b.strides[0]) for b in others]
        self.image = IndexCheck(p, "batch_indices" if self.images else "rois")
        self.op = p.step.op

    def write_line(self, line: Index, bounds: tuple[Index, Index]) -> None:
        """The cells of one row."""
        e = self.e
        region, row = split(line, self.cells[0])
        state = self.region(e.index(region))
        with e.loop(self.cells[1], name="cell") as column:
            number = e.index(line) * self.cells[1] + column
            self._write_cell(state, (e.index(row), column), number, bounds)

    def _write_cell(
        self,
        region: _Region,
        cell: tuple[Value, Value],
        number: Value,
        bounds: tuple[Index, Index],
    ) -> None:
        out = self.sink.row(number)

        def write_vector(channel: Value, lanes: int, mask: Value | None) -> None:
            vector = _Vector(channel, lanes, mask)
            out.put(channel, self.pooled(region, cell, vector), mask)

        self.channels.each(self.e, bounds, write_vector)

    def number(self, region: Value, place: int) -> Value:
        """One of the numbers that describe a region."""
        rows, columns = self.roi_strides
        return convert((self.rois + region * rows + place * columns).load(), self.dtype)

    def rounded(self, number: Value) -> Value:
        """A number as the type of the regions holds it."""
        return convert(convert(number, self.rois.dtype), self.dtype)

    def region(self, region: Value) -> _Region:
        """What all cells of a region share."""
        raise NotImplementedError

    def pooled(self, region: _Region, cell: tuple[Value, Value], vector: _Vector) -> Value:
        """The element of a cell, in neighbouring channels."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Vector:
    """Neighbouring channels, where the mask holds."""

    channel: Value
    lanes: int
    mask: Value | None


@dataclass(frozen=True)
class _Region:
    """A region: its image, where it starts, and its extents, along height and width."""

    image: Pointer
    starts: tuple[Value, ...]
    sizes: tuple[Value, ...]


@dataclass(frozen=True)
class _Samples:
    """The samples of a cell along an axis: the visited ones, and how many there are (a float)."""

    first: Value
    end: Value
    count: Value


class _Align(_Pooling):
    """Cells are sampled between elements."""

    def region(self, region: Value) -> _Region:
        """In elements, not rounded."""
        op = self.op
        assert isinstance(op, RoiAlign)
        scaled = [self.rounded(self.number(region, i) * op.scale) for i in range(4)]
        left, top, right, bottom = scaled
        starts, sizes = [top, left], [self.rounded(bottom - top), self.rounded(right - left)]
        if op.half_pixel:
            starts = [start - 0.5 for start in starts]
        else:
            sizes = [maximum(size, 1) for size in sizes]
        indices, step = self.images[0]
        number = self.image.place((indices + region * step).load())
        image = self.x + number * self.strides[0]
        return _Region(image, tuple(starts), tuple(sizes))

    def pooled(self, region: _Region, cell: tuple[Value, Value], vector: _Vector) -> Value:
        """The mean or the maximum of all samples."""
        op, e = self.op, self.e
        assert isinstance(op, RoiAlign)
        best = op.mode is RegionMode.MAX
        axes = [self._samples(axis, region, cell[axis]) for axis in range(2)]

        def step(places: list[Index], states: list[Value]) -> list[Value]:
            taps = [
                self._taps(axis, region, cell[axis], e.index(places[axis]), axes[axis].count)
                for axis in range(2)
            ]
            return [self._combined(states[0], region.image, taps, vector, best=best)]

        initial = e.constant(self.dtype, -math.inf if best else 0, vector.lanes)
        (total,) = fold_taps(e, [(a.first, a.end) for a in axes], [initial], step)
        number = axes[0].count * axes[1].count
        if not best:
            return total / larger(number, 1)
        if op.samples:
            return total
        visited = [convert(larger(a.end - a.first, 0), self.dtype) for a in axes]
        is_whole = (number > 0) & (visited[0] * visited[1] >= number)
        return select(is_whole, total, maximum(total, total.like(0)))

    def _samples(self, axis: int, region: _Region, cell: Value) -> _Samples:
        """The samples in a cell along an axis."""
        op, e = self.op, self.e
        assert isinstance(op, RoiAlign)
        if op.samples:
            count = e.index(op.samples)
            return _Samples(e.index(0), count, convert(count, self.dtype))
        step, extent = region.sizes[axis] / self.cells[axis], self.extents[axis]
        is_sampled = (step > 0) & (step < math.inf)
        count = select(is_sampled, round_up(step), step.like(0))
        start = fma(step, convert(cell, self.dtype), region.starts[axis])
        each = step / count
        most = smaller(count, float(2 ** (e.index_type.bits - 2)))
        bounds = (-1 - start) / each - MARGIN, (extent - start) / each + MARGIN
        first, end = (
            convert(clamp(floor(bound), 0, most), e.index_type, saturate=True) for bound in bounds
        )
        return _Samples(first, smaller(end, first + most_inside(extent)), count)

    def _taps(
        self, axis: int, region: _Region, cell: Value, sample: Value, count: Value
    ) -> list[SampleTap]:
        part = (convert(sample, self.dtype) + 0.5) / count
        place = convert(cell, self.dtype) + part
        at = fma(region.sizes[axis] / self.cells[axis], place, region.starts[axis])
        inside = (at >= -1) & (at <= self.extents[axis])
        found = taps_of(Axis(self.extents[axis], Interpolation.LINEAR, Border.EDGE), at)
        return [replace(tap, inside=inside) for tap in found]

    def _combined(
        self,
        total: Value,
        image: Pointer,
        taps: list[list[SampleTap]],
        vector: _Vector,
        *,
        best: bool,
    ) -> Value:
        for corner in corners_of(image, self.strides[1:-1], taps, self.dtype):
            value = corner.read(
                self.strides[-1], vector.channel, vector.lanes, vector.mask, self.dtype
            )
            assert corner.weight is not None
            if best:
                total = maximum(total, value * corner.weight)
            else:
                total = fma(value, corner.weight, total)
        return total


class _Largest(_Pooling):
    """Cells are whole elements."""

    def region(self, region: Value) -> _Region:
        """In elements, rounded."""
        op, index = self.op, self.e.index_type
        assert isinstance(op, MaxRoiPool)
        image, *bounds = [self.number(region, i) for i in range(5)]
        halves = [self.rounded(self.rounded(bound * op.scale) + 0.5) for bound in bounds]
        left, top, right, bottom = (convert(floor(half), index, saturate=True) for half in halves)
        sizes = larger(bottom - top + 1, 1), larger(right - left + 1, 1)
        start = self.x + self.image.place(image) * self.strides[0]
        return _Region(start, (top, left), sizes)

    def pooled(self, region: _Region, cell: tuple[Value, Value], vector: _Vector) -> Value:
        """The largest element; zero if there is none."""
        e, (rows, columns) = self.e, self.strides[1:-1]
        ranges = [self._range(axis, region, cell[axis]) for axis in range(2)]

        def step(places: list[Index], states: list[Value]) -> list[Value]:
            row = Row(region.image + places[0] * rows + places[1] * columns, self.strides[-1])
            value = load(row, vector.channel, vector.lanes, vector.mask, self.dtype)
            return [maximum(states[0], value)]

        initial = e.constant(self.dtype, -math.inf, vector.lanes)
        (best,) = fold_taps(e, ranges, [initial], step)
        is_there = (ranges[0][0] < ranges[0][1]) & (ranges[1][0] < ranges[1][1])
        return select(is_there, best, best.like(0))

    def _range(self, axis: int, region: _Region, cell: Value) -> tuple[Value, Value]:
        """The elements of a cell along an axis: neighbours may share one."""
        cells, size, first = self.cells[axis], region.sizes[axis], region.starts[axis]
        start = first + quotient(cell * size, cells)
        end = first + quotient((cell + 1) * size + (cells - 1), cells)
        extent = self.extents[axis]
        return clamp(start, 0, extent), clamp(end, 0, extent)
