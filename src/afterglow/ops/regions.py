"""Pooling of regions of images, channels last."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import reduce

import numpy as np

from afterglow.graph import Builder, Op, Value, op
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import (
    Add,
    And,
    Ceil,
    Div,
    Floor,
    Less,
    LessEqual,
    Max,
    Min,
    Mul,
    Or,
    Sub,
    Where,
    scalar,
)
from afterglow.ops.image import Interpolation
from afterglow.ops.indexing import Gather, Iota
from afterglow.ops.movement import Reshape, Transpose, slice_axis
from afterglow.ops.reduction import ReduceMax, ReduceMean, ReduceSum, widened
from afterglow.ops.rules import (
    require,
    require_dtype,
    require_exact,
    require_float,
    require_rank,
    require_same_dtype,
    require_shape,
)
from afterglow.ops.sampling import Axis, Border, Tap, corners, emit_corners
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, IndexRange, IndexRanges, TensorType
from afterglow.types.dtype import i64

MARGIN = 4
"""Samples that are visited on both sides of those that seem to lie inside."""
MOST_COUNTED = 2**62
"""Samples behind this one are outside, wherever they are."""
MOST_SAMPLES = 2**10
"""The most samples of a cell along an axis that an attribute may ask for."""
MOST_SAMPLES_IN_ALL = 2**29
"""The most samples in all that an attribute may ask for: they take seconds."""


class RegionMode(Enum):
    """How the samples of a cell become one element."""

    MEAN = "mean"
    MAX = "max"


@op("roi_align")
class RoiAlign(Op):
    """Regions of x [N, H, W, C], each divided into a grid of cells that are sampled and pooled.

    A region (left, top, right, bottom), times `scale`, lies in the image that batch_indices names.
    Every cell is sampled at `samples` places along each axis, or, if that is 0, at as many as it
    has elements, rounded up. A sample is interpolated linearly; one that lies further than an
    element outside is zero. `half_pixel` shifts regions by half an element; without it they are at
    least one element large. The maximum is over the four weighted neighbours of every sample.

    Where `samples` is 0, those far outside are counted but not visited: however large a region is,
    the time follows from the image. A region whose size is infinite or NaN has no samples then,
    and is zero.
    """

    cells: tuple[int, int]
    samples: int = 0
    scale: float = 1.0
    mode: RegionMode = RegionMode.MEAN
    half_pixel: bool = True

    def infer(self, x: TensorType, rois: TensorType, batch_indices: TensorType) -> TensorType:
        """One grid of cells a region."""
        require_float(x=x)
        require_same_dtype(x=x, rois=rois)
        require_dtype(i64, batch_indices=batch_indices)
        require_rank(4, x=x)
        require_rank(1, batch_indices=batch_indices)
        require_shape((batch_indices.shape[0], 4), rois=rois)
        allowed = 0 <= self.samples <= MOST_SAMPLES
        require(allowed, f"samples must be from 0 to {MOST_SAMPLES}, got {self.samples}")
        require(0 not in x.shape[:-1], f"{x} has nothing to sample")
        result = x.with_shape((rois.shape[0], *self.cells, x.shape[-1]))
        total, most = math.prod(result.shape[:-1]) * self.samples**2, MOST_SAMPLES_IN_ALL
        require(total <= most, f"its regions have {total:,} samples, the limit is {most:,}")
        return result

    def evaluate(self, x: Array, rois: Array, batch_indices: Array) -> Array:
        """Region by region, as the number of samples may differ."""
        result = np.zeros((len(rois), *self.cells, x.shape[-1]), x.dtype)
        for target, region, image in zip(result, rois, batch_indices, strict=True):
            starts, sizes = self._bounds(region)
            if self._is_sampled(sizes):
                target[...] = self._pooled(x, image, starts, sizes)
        return result

    def index_ranges(self, operands: Sequence[TensorType | None]) -> Mapping[str, IndexRanges]:
        """The images, counted from the first."""
        return {"batch_indices": (_images(self.required_of(operands)[0]),)}

    def _bounds(self, region: Array) -> tuple[Array, Array]:
        """Where a region starts and how large it is, along height and width."""
        left, top, right, bottom = region * region.dtype.type(self.scale)
        starts, ends = np.array([top, left]), np.array([bottom, right])
        sizes = ends - starts
        return (starts - 0.5, sizes) if self.half_pixel else (starts, np.maximum(sizes, 1))

    def _is_sampled(self, sizes: Array) -> bool:
        steps = sizes / np.array(self.cells, sizes.dtype)
        return self.samples > 0 or bool(np.all((steps > 0) & (steps < math.inf)))

    def _pooled(self, x: Array, image: int, starts: Array, sizes: Array) -> Array:
        taps, total = [], 1.0
        for axis, extent in enumerate(x.shape[1:-1]):
            at, count = self._positions(axis, extent, starts[axis], sizes[axis])
            total *= float(count)
            at = at.reshape(-1, *(1,) * (1 - axis))
            inside = (at >= -1) & (at <= extent)
            found = Axis(extent, Interpolation.LINEAR, Border.EDGE).taps(at)
            taps.append([replace(tap, inside=inside) for tap in found])
        best = self.mode is RegionMode.MAX
        samples = reduce(np.maximum if best else np.add, corners(x, np.full((1, 1), image), taps))
        rows, columns = self.cells
        visited = samples.shape[0] // max(rows, 1), samples.shape[1] // max(columns, 1)
        by_cell = samples.reshape(rows, visited[0], columns, visited[1], x.shape[-1])
        if not best:
            return by_cell.sum(axis=(1, 3)) / x.dtype.type(total)
        outside = -math.inf if math.prod(visited) == total else 0
        return by_cell.max(axis=(1, 3), initial=outside)

    def _positions(self, axis: int, extent: int, start: Array, size: Array) -> tuple[Array, Array]:
        """Where the samples of each cell lie that are visited, and how many there are in all."""
        cells = self.cells[axis]
        step, cell = size / cells, np.arange(cells)[:, None].astype(size.dtype)
        count = size.dtype.type(self.samples or np.ceil(step))
        first, visited = np.zeros_like(cell, np.int64), self.samples
        if not self.samples:
            first, visited = samples_inside(start + step * cell, step / count, count, extent)
        part = ((first + np.arange(visited)).astype(size.dtype) + size.dtype.type(0.5)) / count
        return start + step * (cell + part), count

    def lower(self, b: Builder, x: Value, rois: Value, batch_indices: Value) -> Value:
        """Gathers and a reduction; of as many samples as there may be, if regions decide that."""
        require_exact(x=x.type)
        if not self.samples:
            return self._lower_adaptive(b, x, widened(b, rois), batch_indices)
        count = rois.type.shape[0]
        taps = [self._emit_taps(b, rois, axis, x.type.shape[1 + axis]) for axis in range(2)]
        batch = b.emit(Reshape((count, 1, 1)), batch_indices)
        values = emit_corners(b, x, batch, taps)
        best = self.mode is RegionMode.MAX
        combine = Max() if best else Add()
        samples = reduce(lambda total, value: b.emit(combine, total, value), values)
        rows, columns = self.cells
        shape = (count, rows, self.samples, columns, self.samples, x.type.shape[-1])
        by_cell = b.emit(Reshape(shape), samples)
        pool = ReduceMax((2, 4), keepdims=False) if best else ReduceMean((2, 4), keepdims=False)
        return b.emit(pool, by_cell)

    def _lower_adaptive(self, b: Builder, x: Value, rois: Value, batch_indices: Value) -> Value:
        """The lowering where regions decide how many samples their cells have."""
        regions, best = rois.type.shape[0], self.mode is RegionMode.MAX
        axes = [_AdaptiveAxis.emit(self, b, rois, axis, x.type.shape[1 + axis]) for axis in (0, 1)]
        batch = b.emit(Reshape((regions, 1, 1)), batch_indices)
        values = emit_corners(b, x, batch, [axis.taps for axis in axes])
        combine = Max() if best else Add()
        samples = reduce(lambda total, value: b.emit(combine, total, value), values)
        (rows, down), (columns, across) = ((axis.cells, axis.visited) for axis in axes)
        by_cell = Reshape((regions, rows, down, columns, across, x.type.shape[-1]))
        if best:
            exists = _split(b, b.emit(And(), *(axis.exists for axis in axes)))
            samples = b.emit(Where(), exists, samples, scalar(b, -math.inf, samples))
            pooled = b.emit(ReduceMax((2, 4), keepdims=False), b.emit(by_cell, samples))
            missed = _split(b, b.emit(Or(), *(axis.missed for axis in axes)))
            at_least_0 = b.emit(Max(), pooled, scalar(b, 0, pooled))
            pooled = b.emit(Where(), missed, at_least_0, pooled)
        else:
            total = b.emit(ReduceSum((2, 4), keepdims=False), b.emit(by_cell, samples))
            count = _split(b, b.emit(Mul(), *(axis.count for axis in axes)))
            pooled = b.emit(Div(), total, b.emit(Cast(x.type.dtype), count))
        is_sampled = _split(b, b.emit(And(), *(axis.is_sampled for axis in axes)))
        return b.emit(Where(), is_sampled, pooled, scalar(b, 0, pooled))

    def emit_bounds(self, b: Builder, rois: Value, axis: int) -> tuple[Value, Value]:
        """Emit where regions start along an axis and how large they are: [regions, 1] each."""
        scaled = b.emit(Mul(), rois, scalar(b, self.scale, rois))
        start = b.emit(slice_axis(rois.type, 1, 1 - axis, 1), scaled)
        end = b.emit(slice_axis(rois.type, 1, 3 - axis, 1), scaled)
        size = b.emit(Sub(), end, start)
        if self.half_pixel:
            return b.emit(Sub(), start, scalar(b, 0.5, start)), size
        return start, b.emit(Max(), size, scalar(b, 1, size))

    def _emit_taps(self, b: Builder, rois: Value, axis: int, extent: int) -> list[Tap[Value]]:
        start, size = self.emit_bounds(b, rois, axis)
        cells = self.cells[axis]
        places = (_sample_places(cells, self.samples) / cells).astype(rois.type.dtype.numpy)
        at = b.emit(Add(), start, b.emit(Mul(), size, b.constant(places, "places")))
        regions, samples = at.type.shape
        at = b.emit(Reshape((regions, 1, samples) if axis else (regions, samples, 1)), at)
        return _linear_taps(b, at, extent, _emit_inside(b, at, extent))


@dataclass(frozen=True)
class _AdaptiveAxis:
    """The samples along an axis of regions that decide how many there are, at most `visited`.

    Each cell visits samples from about the first that lies inside the image. Some of those may not
    exist, and some that exist may be missed: they lie outside.
    """

    cells: int
    visited: int
    taps: list[Tap[Value]]
    exists: Value
    """Which of the visited samples there are: broadcasts to [regions, rows, columns]."""
    missed: Value
    """Which cells have samples that are not visited: likewise, of cells."""
    count: Value
    """How many samples each cell has along the axis: [regions, 1, 1]."""
    is_sampled: Value
    """Which regions are positive and finite along the axis: [regions, 1, 1]."""

    @staticmethod
    def emit(op: RoiAlign, b: Builder, rois: Value, axis: int, extent: int) -> _AdaptiveAxis:
        """Emit the samples as `RoiAlign.evaluate` has them."""
        cells, visited = op.cells[axis], most_inside(extent)
        start, size = op.emit_bounds(b, rois, axis)
        step = b.emit(Div(), size, scalar(b, cells, size))
        count = b.emit(Ceil(), step)
        above_0 = b.emit(Less(), scalar(b, 0, step), step)
        is_sampled = b.emit(And(), above_0, b.emit(Less(), step, scalar(b, math.inf, step)))
        cell = b.emit(Iota((1, cells), 1, rois.type.dtype))
        first = _emit_first(b, b.emit(Add(), start, b.emit(Mul(), step, cell)), step, count)
        numbers = b.emit(Add(), _split(b, first), b.emit(Iota((1, 1, visited), 2, i64)))
        index = b.emit(Cast(rois.type.dtype), numbers)
        exists = b.emit(Less(), index, _split(b, count))
        at = _emit_positions(b, start, step, count, cell, index)
        at = b.emit(Where(), _split(b, is_sampled), at, scalar(b, 0, at))

        def along(x: Value, count: int) -> Value:
            regions = rois.type.shape[0]
            return b.emit(Reshape((regions, 1, count) if axis else (regions, count, 1)), x)

        last = b.emit(slice_axis(exists.type, 2, visited - 1, 1), exists)
        skips = b.emit(Less(), scalar(b, 0, first), first)
        missed = b.emit(Or(), along(skips, cells), along(last, cells))
        at, exists = along(at, cells * visited), along(exists, cells * visited)
        inside = b.emit(And(), exists, _emit_inside(b, at, extent))
        taps = _linear_taps(b, at, extent, inside)
        per_region = along(count, 1), along(is_sampled, 1)
        return _AdaptiveAxis(cells, visited, taps, exists, missed, *per_region)


def _split(b: Builder, x: Value) -> Value:
    """x with one more axis at its end, of extent 1."""
    return b.emit(Reshape((*x.type.shape, 1)), x)


def _emit_positions(
    b: Builder, start: Value, step: Value, count: Value, cell: Value, index: Value
) -> Value:
    """Where samples lie along an axis: [regions, cells, samples of a cell]."""
    half = b.emit(Add(), index, scalar(b, 0.5, index))
    within = b.emit(Add(), _split(b, cell), b.emit(Div(), half, _split(b, count)))
    return b.emit(Add(), _split(b, start), b.emit(Mul(), _split(b, step), within))


def _emit_first(b: Builder, starts: Value, step: Value, count: Value) -> Value:
    """The first sample to visit of cells that start there: integers [regions, cells]."""
    gap = b.emit(Div(), step, count)
    before = b.emit(Div(), b.emit(Sub(), scalar(b, -1, starts), starts), gap)
    bound = b.emit(Floor(), b.emit(Sub(), before, scalar(b, MARGIN, before)))
    last = b.emit(Min(), count, scalar(b, float(MOST_COUNTED), count))
    return b.emit(Cast(i64), b.emit(Min(), b.emit(Max(), bound, scalar(b, 0, bound)), last))


def _emit_inside(b: Builder, at: Value, extent: int) -> Value:
    """Whether samples lie inside of the image, or at most an element outside."""
    above = b.emit(LessEqual(), scalar(b, -1, at), at)
    return b.emit(And(), above, b.emit(LessEqual(), at, scalar(b, extent, at)))


def _linear_taps(b: Builder, at: Value, extent: int, inside: Value) -> list[Tap[Value]]:
    """The neighbours of positions along an axis; they count where `inside` holds."""
    found = Axis(extent, Interpolation.LINEAR, Border.EDGE).emit_taps(b, at)
    return [replace(tap, inside=inside) for tap in found]


def samples_inside(starts: Array, step: float, count: float, extent: int) -> tuple[Array, int]:
    """The first samples of cells along an axis that may lie inside, and how many to visit in each.

    Samples lie `step` from each other, from half of that behind the start of the cell.
    """
    last = min(count, float(MOST_COUNTED))
    bounds = (-1 - starts) / step - MARGIN, (extent - starts) / step + MARGIN
    first, end = (np.clip(np.floor(bound), 0, last).astype(np.int64) for bound in bounds)
    visited = min(int((end - first).max(initial=0)), most_inside(extent))
    return np.minimum(first, int(last) - visited), visited


def most_inside(extent: int) -> int:
    """Samples of a cell along an axis that may lie inside, at most: they are 1/2 apart or more."""
    return 2 * (extent + 1 + MARGIN)


def _sample_places(cells: int, count: int) -> Array:
    """Where samples lie along an axis, in cells: `count` evenly in each."""
    return (np.arange(cells)[:, None] + (np.arange(count) + 0.5) / count).reshape(-1)


@op("max_roi_pool")
class MaxRoiPool(Op):
    """Regions of x [N, H, W, C], each divided into a grid of cells: the maximum of each cell.

    A region (image, left, top, right, bottom), but for the image times `scale` and rounded to
    elements, includes its last row and column. A cell that has no elements is zero.
    """

    cells: tuple[int, int]
    scale: float = 1.0

    def infer(self, x: TensorType, rois: TensorType) -> TensorType:
        """One grid of cells a region."""
        require_float(x=x)
        require_same_dtype(x=x, rois=rois)
        require_rank(4, x=x)
        require_rank(2, rois=rois)
        require_shape((rois.shape[0], 5), rois=rois)
        return x.with_shape((rois.shape[0], *self.cells, x.shape[-1]))

    def evaluate(self, x: Array, rois: Array) -> Array:
        """Cell by cell."""
        result = np.zeros((len(rois), *self.cells, x.shape[-1]), x.dtype)
        for target, (image, *bounds) in zip(result, rois, strict=True):
            left, top, right, bottom = np.floor(np.array(bounds) * self.scale + 0.5).astype(int)
            rows = _cell_slices(top, bottom, self.cells[0], x.shape[1])
            columns = [*_cell_slices(left, right, self.cells[1], x.shape[2])]
            for i, row in enumerate(rows):
                for j, column in enumerate(columns):
                    cell = x[int(image), row, column]
                    if cell.size:
                        target[i, j] = cell.max(axis=(0, 1))
        return result

    def lower(self, b: Builder, x: Value, rois: Value) -> Value:
        """The largest of all rows, then of all columns; those outside of a cell do not count."""
        require_exact(x=x.type)
        wide = widened(b, rois)
        image = b.emit(Cast(i64), b.emit(slice_axis(rois.type, 1, 0, 1), wide))
        images = b.emit(Gather(0), x, b.emit(Reshape((rois.type.shape[0],)), image))
        rows, columns = (self._emit_cells(b, wide, axis, x.type.shape[1 + axis]) for axis in (0, 1))
        by_row = _largest_inside(b, images, rows)  # [regions, rows of cells, W, C]
        turned = b.emit(Transpose((0, 2, 1, 3)), by_row)
        cells = b.emit(Transpose((0, 2, 1, 3)), _largest_inside(b, turned, columns))
        some_rows, some_columns = (b.emit(ReduceMax((2,)), mask) for mask in (rows, columns))
        across = b.emit(Reshape((rois.type.shape[0], 1, self.cells[1])), some_columns)
        has_elements = b.emit(And(), some_rows, across)
        has_elements = b.emit(Reshape((*has_elements.type.shape, 1)), has_elements)
        return b.emit(Where(), has_elements, cells, scalar(b, 0, x))

    def _emit_cells(self, b: Builder, rois: Value, axis: int, extent: int) -> Value:
        """Which elements along an axis each cell has, as booleans [regions, cells, extent]."""
        scaled = b.emit(Mul(), rois, scalar(b, self.scale, rois))
        rounded = b.emit(Floor(), b.emit(Add(), scaled, scalar(b, 0.5, rois)))
        bounds = b.emit(Cast(i64), rounded)
        first = b.emit(slice_axis(bounds.type, 1, 2 - axis, 1), bounds)
        last = b.emit(slice_axis(bounds.type, 1, 4 - axis, 1), bounds)
        one, count = scalar(b, 1, first), scalar(b, self.cells[axis], first)
        size = b.emit(Max(), b.emit(Add(), b.emit(Sub(), last, first), one), one)
        numbers = b.emit(Iota((1, self.cells[axis]), 1, i64))
        start = b.emit(Div(), b.emit(Mul(), numbers, size), count)
        behind = b.emit(Mul(), b.emit(Add(), numbers, one), size)
        rounded_up = b.emit(Add(), behind, b.emit(Sub(), count, one))
        end = b.emit(Add(), first, b.emit(Div(), rounded_up, count))
        start = b.emit(Add(), first, start)
        apart = Reshape((*start.type.shape, 1))
        at = b.emit(Iota((1, 1, extent), 2, i64))
        begun = b.emit(LessEqual(), b.emit(apart, start), at)
        return b.emit(And(), begun, b.emit(Less(), at, b.emit(apart, end)))

    def index_ranges(self, operands: Sequence[TensorType | None]) -> Mapping[str, IndexRanges]:
        """The image that a region begins with; the rest of it may lie anywhere."""
        x, _ = self.required_of(operands)
        return {"rois": (_images(x), None, None, None, None)}


def _largest_inside(b: Builder, x: Value, inside: Value) -> Value:
    """The largest of x [N, E, …] along axis 1 where `inside` [N, cells, E] holds: [N, cells, …]."""
    count, cells, extent = inside.type.shape
    mask = b.emit(Reshape((count, cells, extent, 1, 1)), inside)
    repeated = b.emit(Reshape((count, 1, *x.type.shape[1:])), x)
    seen = b.emit(Where(), mask, repeated, scalar(b, -math.inf, x))
    return b.emit(ReduceMax((2,), keepdims=False), seen)


def _images(x: TensorType) -> IndexRange:
    return IndexRange.counts(x.shape[0] - 1)


def _cell_slices(first: int, last: int, cells: int, extent: int) -> Iterator[slice]:
    """The elements of each cell along an axis; neighbours may share one."""
    size = max(last - first + 1, 1)
    for cell in range(cells):
        start = first + math.floor(cell * size / cells)
        end = first + math.ceil((cell + 1) * size / cells)
        yield slice(min(max(start, 0), extent), min(max(end, 0), extent))
