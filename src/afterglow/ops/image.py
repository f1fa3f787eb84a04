"""Resampling of images to other extents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum

import numpy as np

from afterglow.graph import Band, Builder, Cut, Op, Value, op
from afterglow.graph.band import with_extent
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Max, Min, Mul, Round, Where, scalar
from afterglow.ops.indexing import Gather
from afterglow.ops.reduction import ReduceSum
from afterglow.ops.rules import require, require_number
from afterglow.types import Array, DType, TensorType
from afterglow.types.dtype import f64
from afterglow.types.extent import is_ranged, largest, smallest, undecided

WEIGHT_BITS = 11
"""Bits of linear weights of integers: those of two axes, times a byte, fit 32 bits."""
WEIGHT_ONE = 1 << WEIGHT_BITS


class Interpolation(Enum):
    """How an element between others comes from them."""

    NEAREST = "nearest"
    LINEAR = "linear"
    CUBIC = "cubic"


class Coordinates(Enum):
    """Where in x an element of the result lies."""

    HALF_PIXEL = "half_pixel"
    HALF_PIXEL_SYMMETRIC = "half_pixel_symmetric"
    HALF_PIXEL_OR_START = "half_pixel_or_start"
    HALF_PIXEL_UNSHIFTED = "half_pixel_unshifted"
    ALIGN_CORNERS = "align_corners"
    ASYMMETRIC = "asymmetric"
    CROP = "crop"


class Rounding(Enum):
    """Which of two neighbours is nearest."""

    HALF_DOWN = "half_down"
    HALF_UP = "half_up"
    FLOOR = "floor"
    CEIL = "ceil"

    def of(self, x: Array) -> Array:
        """Whole numbers near x."""
        match self:
            case Rounding.HALF_DOWN:
                return np.ceil(x - 0.5)
            case Rounding.HALF_UP:
                return np.floor(x + 0.5)
            case Rounding.FLOOR:
                return np.floor(x)
        return np.ceil(x)


@op("resize")
class Resize(Op):
    """x resampled to the shape `sizes`, one axis after the other.

    Element i along an axis lies at x's position, counting elements from 0, by `coordinates`:

    - half_pixel: (i + 1/2) / scale - 1/2
    - half_pixel_symmetric: the same, but the middle of the result is the middle of x
    - half_pixel_or_start: the same as half_pixel, but 0 if there is one element
    - half_pixel_unshifted: (i + 1/2) / scale
    - align_corners: i (n - 1) / (scale n - 1) with n elements in x
    - asymmetric: i / scale
    - crop: as align_corners, in the part of x from `region`, starts then ends, as fractions of
      n - 1; what lies outside x is `extrapolation`

    Beyond the border the last element is repeated, or, if `exclude_outside`, left out.
    `antialias` widens the filter when the result is smaller. `cubic` is Keys' parameter a.
    A scale of 0 stands for the extent of the result by that of x, whatever they are in a run.
    Integers are rounded to the nearest, of two to the even one, saturating; `extrapolation`
    saturates, too. Linear weights of integers, unless `antialias`, are multiples of 2^-11 that sum
    to 1: so sums are exact.
    """

    sizes: tuple[int, ...]
    scales: tuple[float, ...]
    mode: Interpolation = Interpolation.NEAREST
    coordinates: Coordinates = Coordinates.HALF_PIXEL
    rounding: Rounding = Rounding.HALF_DOWN
    cubic: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    region: tuple[float, ...] = ()
    extrapolation: float = 0.0

    def infer(self, x: TensorType) -> TensorType:
        """The sizes."""
        if self.mode is not Interpolation.NEAREST:
            require_number(x=x)
        for name, values in (("sizes", self.sizes), ("scales", self.scales)):
            require(len(values) == x.rank, f"{name} must have one entry per axis of {x}")
        require(all(scale >= 0 for scale in self.scales), f"scales must be positive: {self.scales}")
        crops = self.coordinates is Coordinates.CROP
        require(
            len(self.region) == (2 * x.rank if crops else 0),
            f"region must have a start and an end for each axis to crop, got {self.region}",
        )
        no_element = x.dtype.is_integer and math.isnan(self.extrapolation)
        require(not no_element, f"the extrapolation value is NaN, which {x.dtype} does not have")
        pairs = zip(x.shape, self.sizes, strict=True)
        require(
            all(smallest(old) > 0 or largest(new) == 0 for old, new in pairs),
            f"{x} has nothing to resample",
        )
        return x.with_shape(self.sizes)

    def evaluate(self, x: Array) -> Array:
        """Weigh the elements near each position."""
        dtype, shape = x.dtype, x.shape
        whole = DType.of(dtype).is_integer
        if whole and self.mode is not Interpolation.NEAREST:
            x = x.astype(np.float64)
        for axis in self.resized_axes(shape):
            indices, weights = self.table(axis, shape[axis], whole=whole)
            if self.mode is Interpolation.NEAREST:
                x = x.take(indices[:, 0], axis)
                continue
            factors = weights.astype(x.dtype).reshape(*weights.shape, *(1,) * (x.ndim - axis - 1))
            x = sum(x.take(indices[:, i], axis) * factors[:, i] for i in range(indices.shape[1]))
        if whole and x.dtype != dtype:
            x = np.clip(np.rint(x), *DType.of(dtype).limits).astype(dtype)
        outside = self.outside(shape)
        return np.where(outside, self._beyond(DType.of(dtype)), x) if outside.any() else x

    def _beyond(self, dtype: DType) -> Array:
        """The extrapolation value as an element: of integers the nearest one towards 0 there is."""
        value = self.extrapolation
        if dtype.is_integer:
            low, high = dtype.limits
            value = min(max(value, low), high)
        return np.array(value, dtype.numpy)

    def lower(self, b: Builder, x: Value) -> Value:
        """Gathers along each axis, and weighted sums of what they give."""
        dtype, shape = x.type.dtype, x.type.shape
        whole = dtype.is_integer and self.mode is not Interpolation.NEAREST
        y = b.emit(Cast(f64), x) if whole else x
        for axis in self.resized_axes(shape):
            y = self._lower_axis(b, y, axis, whole=whole)
        if whole:
            low, high = map(float, dtype.limits)
            y = b.emit(Max(), b.emit(Round(), y), scalar(b, low, y))
            y = b.emit(Cast(dtype), b.emit(Min(), y, scalar(b, high, y)))
        outside = self.outside(shape)
        if not outside.any():
            return y
        beyond = b.constant(self._beyond(dtype), "extrapolation")
        return b.emit(Where(), b.constant(outside, "outside"), beyond, y)

    def _lower_axis(self, b: Builder, x: Value, axis: int, *, whole: bool) -> Value:
        indices, weights = self.table(axis, x.type.shape[axis], whole=whole)
        if self.mode is Interpolation.NEAREST:
            return b.emit(Gather(axis), x, b.constant(indices[:, 0], "indices"))
        near = b.emit(Gather(axis), x, b.constant(indices, "indices"))
        factors = weights.reshape(*weights.shape, *(1,) * (x.type.rank - axis - 1))
        weight = b.constant(factors.astype(x.type.dtype.numpy), "weights")
        return b.emit(ReduceSum((axis + 1,), keepdims=False), b.emit(Mul(), near, weight))

    def band(
        self, cut: Cut, result: TensorType, operands: Sequence[TensorType | None]
    ) -> Band | None:
        """From all elements that count, if their part resampled alone comes out the same."""
        (x,) = self.required_of(operands)
        axis, extent, size = cut.axis, x.shape[cut.axis], result.shape[cut.axis]
        if axis not in self.resized_axes(x.shape):
            return Band(replace(self, sizes=with_extent(self.sizes, axis, cut.extent)), (cut,))
        if self.coordinates is Coordinates.CROP or size % extent:
            return None
        scale, (indices, weights) = size // extent, self.table(axis, extent)
        here = indices[cut.start : cut.stop]
        source = Cut(axis, int(here.min()), int(here.max()) + 1)
        source = source.hull(Cut(axis, cut.start // scale, -(-cut.stop // scale)))
        op = replace(self, sizes=with_extent(self.sizes, axis, source.extent * scale))
        skip = cut.start - source.start * scale
        kept = slice(skip, skip + cut.extent)
        part_indices, part_weights = op.table(axis, source.extent)
        same = np.array_equal(part_indices[kept] + source.start, here) and np.array_equal(
            part_weights[kept], weights[cut.start : cut.stop]
        )
        return Band(op, (source,), skip) if same else None

    def permuted(self, perm: tuple[int, ...]) -> Resize:
        """The entries in the new order."""
        sizes = tuple(self.sizes[axis] for axis in perm)
        scales = tuple(self.scales[axis] for axis in perm)
        both = (*perm, *(axis + len(perm) for axis in perm)) if self.region else ()
        region = tuple(self.region[i] for i in both)
        return replace(self, sizes=sizes, scales=scales, region=region)

    def resized_axes(self, shape: tuple[int, ...]) -> list[int]:
        """The axes along which anything changes."""
        regions = zip(self.region[: len(shape)], self.region[len(shape) :], strict=True)
        cropped = [region != (0.0, 1.0) for region in regions] or [False] * len(shape)
        return [
            axis
            for axis, extent in enumerate(shape)
            if (self.sizes[axis], self.scales[axis]) != (extent, 1.0) or cropped[axis]
        ]

    def positions(self, axis: int, extent: int) -> Array:
        """Where in x each element of the result lies along an axis."""
        size, length = self.sizes[axis], self._length(axis, extent)
        if is_ranged(size) or is_ranged(extent):
            raise undecided(f"where {size} elements lie among {extent}", size, extent)
        i = np.arange(size, dtype=np.float64)
        match self.coordinates:
            case Coordinates.ASYMMETRIC:
                return self._unscaled(i, axis, extent)
            case Coordinates.HALF_PIXEL_UNSHIFTED:
                return self._unscaled(i + 0.5, axis, extent)
            case Coordinates.HALF_PIXEL_OR_START if size == 1:
                return i
            case Coordinates.ALIGN_CORNERS:
                return i * (extent - 1) / (length - 1) if length != 1 else np.zeros(size)
            case Coordinates.CROP:
                start, end = self.region[axis], self.region[axis + len(self.sizes)]
                part = i / (length - 1) if length != 1 else np.full(size, 0.5)
                return (start + part * (end - start)) * (extent - 1)
        if self.coordinates is Coordinates.HALF_PIXEL_SYMMETRIC:
            return self._unscaled(i + 0.5 - size / 2, axis, extent) + extent / 2 - 0.5
        return self._unscaled(i + 0.5, axis, extent) - 0.5

    def _length(self, axis: int, extent: int) -> float:
        """The extent of the result before it was rounded down: whole if it is nearly so."""
        length = self._scale(axis, extent) * extent
        whole = math.isclose(length, self.sizes[axis], rel_tol=1e-6)
        return self.sizes[axis] if whole else length

    def _scale(self, axis: int, extent: int) -> float:
        return self.scales[axis] or self.sizes[axis] / extent

    def shrink(self, axis: int, extent: int) -> float:
        """How much narrower the result is than the filter that makes it."""
        if not self.antialias:
            return 1.0
        if is_ranged(extent) and not self.scales[axis]:
            raise undecided("how wide the filter of a resampled axis is", extent)
        return min(1.0, self._scale(axis, extent))

    def taps(self, axis: int, extent: int) -> range:
        """The elements of x around a position that count, from the one before it on."""
        if self.mode is Interpolation.NEAREST:
            return range(1)
        support = 2 if self.mode is Interpolation.CUBIC else 1
        first = math.floor(-support / self.shrink(axis, extent)) + 1
        return range(first, 2 - first)

    def _unscaled(self, i: Array, axis: int, extent: int) -> Array:
        """i / scale, exact if the scale is one whole number by another.

        Others are of single precision, and so is the division: 1.5 / 0.6 must not be below 2.5.
        """
        if self._length(axis, extent) == self.sizes[axis]:
            return i * extent / self.sizes[axis]
        return (i.astype(np.float32) / np.float32(self.scales[axis])).astype(np.float64)

    @property
    def is_convex(self) -> bool:
        """Whether results are elements of x, or lie between two of them along each axis."""
        plain = self.coordinates is not Coordinates.CROP and not self.antialias
        return plain and self.mode is not Interpolation.CUBIC

    @property
    def has_whole_weights(self) -> bool:
        """Whether weights of integers are multiples of a power of two."""
        return self.mode is Interpolation.LINEAR and not self.antialias

    def table(self, axis: int, extent: int, *, whole: bool = False) -> tuple[Array, Array]:
        """For each element of the result, which elements of x it comes from, with which weights.

        `whole`: for an x of integers.
        """
        indices, weights = self._table(axis, extent)
        if whole and self.has_whole_weights:
            first = np.rint(weights[:, :1] * WEIGHT_ONE) / WEIGHT_ONE
            weights = np.concatenate([first, 1 - first], 1)
        return indices, weights

    def _table(self, axis: int, extent: int) -> tuple[Array, Array]:
        at = self.positions(axis, extent)
        if self.mode is Interpolation.NEAREST:
            indices = self.rounding.of(at).astype(np.int64)[:, None]
            return np.clip(indices, 0, extent - 1), np.ones(indices.shape)
        kernel = _cubic if self.mode is Interpolation.CUBIC else _linear
        offsets = np.array(self.taps(axis, extent))
        base, shrink = np.floor(at), self.shrink(axis, extent)
        weights = kernel(np.abs(shrink * (offsets - (at - base)[:, None])), self.cubic)
        indices = base.astype(np.int64)[:, None] + offsets
        if self.exclude_outside:
            weights = np.where((indices < 0) | (indices >= extent), 0.0, weights)
        total = weights.sum(axis=1, keepdims=True)
        return np.clip(indices, 0, extent - 1), weights / np.where(total == 0, 1.0, total)

    def outside(self, shape: tuple[int, ...]) -> Array:
        """Which elements of the result lie outside x; all axes of extent 1 if none can."""
        result = np.zeros((1,) * len(shape), bool)
        if self.coordinates is not Coordinates.CROP:
            return result
        for axis in self.resized_axes(shape):
            at = self.positions(axis, shape[axis])
            beyond = (at < 0) | (at > shape[axis] - 1)
            result = result | beyond.reshape(-1, *(1,) * (len(shape) - axis - 1))
        return result


def _linear(distance: Array, _: float) -> Array:
    return np.maximum(0.0, 1 - distance)


def _cubic(distance: Array, a: float) -> Array:
    """Keys' kernel."""
    inner = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    outer = ((distance - 5) * distance + 8) * distance * a - 4 * a
    return np.where(distance <= 1, inner, np.where(distance < 2, outer, 0.0))
