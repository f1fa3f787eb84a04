"""Pooling, channels last."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import product
from typing import Any

import numpy as np

from afterglow.graph import Band, Builder, Cut, Gradients, Halo, Op, Value, op
from afterglow.ops.convolution import Conv, ConvTranspose
from afterglow.ops.elementwise import Abs, IsNaN, Less, Mul, Or, Where, scalar
from afterglow.ops.fill import Fill
from afterglow.ops.indexing import ScatterReduction
from afterglow.ops.movement import Expand, Pad, Reshape, Slice
from afterglow.ops.power import Pow
from afterglow.ops.reduction import narrowed, widened
from afterglow.ops.rules import (
    exact_extent,
    require,
    require_float,
    require_number,
    require_same_dtype,
    require_shape,
)
from afterglow.ops.scatter import ScatterElements
from afterglow.ops.windows import Windows
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, TensorType
from afterglow.types.dtype import i64


@dataclass(frozen=True, repr=False)
class Pool(Op):
    """Base: each window of x [N, spatial…, C] becomes one element, each channel on its own."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    ceil_mode: bool = False

    @property
    def windows(self) -> Windows:
        """The geometry."""
        return Windows(self.kernel, self.strides, self.pads, self.dilations, self.ceil_mode)

    def pooled(self, x: TensorType) -> TensorType:
        """One window a result position."""
        self.windows.check(x)
        return x.with_shape((x.shape[0], *self.windows.counts(x.shape[1:-1]), x.shape[-1]))

    def parallel(
        self, axis: int, result: TensorType, operands: Sequence[TensorType | None]
    ) -> tuple[int | None, ...] | None:
        """Images and channels follow x."""
        return (axis,) if axis in (0, result.rank - 1) else None

    def band(
        self, cut: Cut, result: TensorType, operands: Sequence[TensorType | None]
    ) -> Band | None:
        """Rows come from the rows that their windows see."""
        (x,) = self.required_of(operands)
        if not 0 < cut.axis < result.rank - 1:
            return super().band(cut, result, operands)
        seen = self.windows.band(cut, x.shape[cut.axis])
        return None if seen is None else Band(replace(self, pads=seen[1]), seen[:1])

    def work(self, result: TensorType, operands: Sequence[TensorType | None]) -> int:
        """The elements of all windows."""
        return result.size * math.prod(self.kernel)

    def combined(self, x: Array, function: np.ufunc, fill: Any) -> Array:
        """Combine the elements of each window, one axis after the other."""
        windows = self.windows
        counts = windows.counts(x.shape[1:-1])
        if windows.pads_dominate(x.shape, math.prod(counts) * x.shape[0] * x.shape[-1]):
            return self._combined_seen(x, function, fill)
        result = windows.padded(x, fill)
        for axis, count in enumerate(counts):
            before = (slice(None),) * (axis + 1)
            result = reduce(function, (result[(*before, tap)] for tap in windows.taps(axis, count)))
        return result

    def _combined_seen(self, x: Array, function: np.ufunc, fill: Any) -> Array:
        """The same from x alone, without its padding in memory."""
        for axis, count in enumerate(self.windows.counts(x.shape[1:-1])):
            before = (slice(None),) * (axis + 1)
            result = np.full((*x.shape[: axis + 1], count, *x.shape[axis + 2 :]), fill, x.dtype)
            for tap, seen in self.windows.seeing_taps(axis, x.shape[axis + 1], count):
                target = result[(*before, slice(seen.start, seen.stop))]
                function(target, x[(*before, self.windows.places(axis, tap, seen))], out=target)
            x = result
        return x


def _lowest(dtype: np.dtype[Any]) -> Any:
    """What fills the padding of a maximum."""
    return np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


def _padded(b: Builder, windows: Windows, x: Value) -> Value:
    """x with padding that never wins a maximum."""
    ends = windows.needed_ends(x.type.shape[1:-1])
    if not any(windows.begins) and not any(ends):
        return x
    fill = b.constant(np.array(_lowest(x.type.dtype.numpy), x.type.dtype.numpy), "lowest")
    return b.emit(Pad((0, *windows.begins, 0), (0, *ends, 0)), x, fill)


@op("max_pool_gradient")
class MaxPoolGradient(Pool):
    """The gradient of a maximum pooling: that of each window goes to its first largest element."""

    def infer(self, grad: TensorType, x: TensorType) -> TensorType:
        """The type of x."""
        require_float(x=x)
        require_same_dtype(grad=grad, x=x)
        require_shape(self.pooled(x).shape, grad=grad)
        return x

    def evaluate(self, grad: Array, x: Array) -> Array:
        """Added up at the indices of the largest elements."""
        pool = MaxPoolWithIndices(
            self.kernel, self.strides, self.pads, self.dilations, self.ceil_mode
        )
        _, indices = pool.evaluate(x)
        images, *_, channels = x.shape
        total = np.zeros((images, math.prod(x.shape[1:-1]), channels), x.dtype)
        lines = indices.reshape(images, -1, channels)
        where = np.arange(images)[:, None, None], lines, np.arange(channels)
        np.add.at(total, where, grad.reshape(lines.shape))
        return total.reshape(x.shape)

    def lower(self, b: Builder, grad: Value, x: Value) -> Value:
        """As `evaluate`; what comes from padding alone is lost."""
        windows = self.windows
        padded = _padded(b, windows, x)
        batch, *extents, channels = padded.type.shape
        bare = MaxPoolWithIndices(self.kernel, self.strides, (0,) * len(self.pads), self.dilations)
        _, indices = b.emit_all(bare, padded)
        lines = Reshape((batch, math.prod(grad.type.shape[1:-1]), channels))
        zeros = b.emit(Fill((batch, math.prod(extents), channels), 0.0, x.type.dtype))
        add = ScatterElements(1, ScatterReduction.ADD)
        total = b.emit(add, zeros, b.emit(lines, indices), b.emit(lines, grad))
        whole = b.emit(Reshape(padded.type.shape), total)
        return b.emit(Slice((0, *windows.begins, 0), x.type.shape, (1,) * x.type.rank), whole)

    def parallel(
        self, axis: int, result: TensorType, operands: Sequence[TensorType | None]
    ) -> tuple[int | None, ...] | None:
        """Images and channels follow both operands."""
        return (axis, axis) if axis in (0, result.rank - 1) else None

    def band(
        self, cut: Cut, result: TensorType, operands: Sequence[TensorType | None]
    ) -> Band | None:
        """No rows: those of x need windows that see other rows."""
        inside = 0 < cut.axis < result.rank - 1
        return None if inside else Op.band(self, cut, result, operands)

    def work(self, result: TensorType, operands: Sequence[TensorType | None]) -> int:
        """The elements of all windows, twice."""
        grad, _ = self.required_of(operands)
        return 2 * grad.size * math.prod(self.kernel)


def _to_largest(b: Builder, pool: Pool, grad: Value, x: Value) -> Value:
    """A gradient of the maxima, added where they are."""
    op = MaxPoolGradient(pool.kernel, pool.strides, pool.pads, pool.dilations, pool.ceil_mode)
    return b.emit(op, grad, x)


@op("max_pool")
class MaxPool(Pool):
    """The largest element of each window, ignoring padding; NaN if the window contains NaN."""

    def infer(self, x: TensorType) -> TensorType:
        """One window a result position."""
        require_number(x=x)
        return self.pooled(x)

    def evaluate(self, x: Array) -> Array:
        """The maximum of what each place in the window sees."""
        return self.combined(x, np.maximum, _lowest(x.dtype))

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """To the first largest element of each window."""
        return (_to_largest(b, self, grad, x),)

    def with_halo(self, operands: Sequence[TensorType | None]) -> Halo | None:
        """What no element is below."""
        (x,) = self.required_of(operands)
        bare = replace(self, pads=(0,) * len(self.pads), ceil_mode=False)
        return self.windows.halo(x, float(_lowest(x.dtype.numpy)), bare)


@op("max_pool_with_indices")
class MaxPoolWithIndices(Pool):
    """The largest element of each window, and its index.

    The index counts the positions of one image and channel in row-major order. Of equal elements
    the first is taken; NaN counts as largest, and of several the last is taken.
    """

    result_names = ("values", "indices")

    def infer(self, x: TensorType) -> tuple[TensorType, TensorType]:
        """Two results of one shape."""
        require_number(x=x)
        pooled = self.pooled(x)
        return pooled, pooled.with_dtype(i64)

    def band(
        self, cut: Cut, result: TensorType, operands: Sequence[TensorType | None]
    ) -> Band | None:
        """No rows: the indices would count from the first row of the part."""
        inside = 0 < cut.axis < result.rank - 1
        return None if inside else super().band(cut, result, operands)

    def evaluate(self, x: Array) -> tuple[Array, Array]:
        """Go through the places of the window and keep the best."""
        shape = self.pooled(TensorType.of(x)).shape
        if self.windows.pads_dominate(x.shape, math.prod(shape)):
            return self._best_seen(x, shape)
        padded = self.windows.padded(x, _lowest(x.dtype))
        (place, start), *others = self._places(x.shape[1:-1])
        best = padded[place]
        index = np.broadcast_to(start, best.shape)
        for place, here in others:
            candidate = padded[place]
            better = (best < candidate) | (candidate != candidate)
            best = np.where(better, candidate, best)
            index = np.where(better, here, index)
        return best, index

    def gradient(self, b: Builder, out: tuple[Value, ...], grad: Gradients, x: Value) -> Gradients:
        """To the largest element of each window."""
        assert grad[0] is not None
        return (_to_largest(b, self, grad[0], x),)

    def lower(self, b: Builder, x: Value) -> tuple[Value, Value]:
        """As `evaluate`, from slices and comparisons."""
        padded = _padded(b, self.windows, x)
        shape = self.pooled(x.type).shape
        for extent in x.type.shape[1:-1]:
            exact_extent(extent, "which index the places of a window have")
        (place, start), *others = self._places(x.type.shape[1:-1])
        best = b.emit(_slice_op(place, shape), padded)
        index = b.emit(Expand(shape), b.constant(start, "indices"))
        for place, here in others:
            candidate = b.emit(_slice_op(place, shape), padded)
            better = b.emit(Less(), best, candidate)
            if x.type.dtype.is_float:
                better = b.emit(Or(), better, b.emit(IsNaN(), candidate))
            best = b.emit(Where(), better, candidate, best)
            index = b.emit(Where(), better, b.constant(here, "indices"), index)
        return best, index

    def _best_seen(self, x: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
        """The same from x alone, without its padding in memory."""
        extents, windows = x.shape[1:-1], self.windows
        best = np.full(shape, _lowest(x.dtype), x.dtype)
        index = np.broadcast_to(self._index(extents, None), shape).copy()
        axes = enumerate(zip(extents, shape[1:-1], strict=True))
        taps = [windows.seeing_taps(axis, extent, count) for axis, (extent, count) in axes]
        for place in product(*taps):
            inside = (slice(None), *(slice(seen.start, seen.stop) for _, seen in place))
            source = (windows.places(axis, *at) for axis, at in enumerate(place))
            candidate = x[(slice(None), *source)]
            here = self._index(extents, tuple(tap for tap, _ in place))[(slice(None), *inside[1:])]
            better = (best[inside] < candidate) | (candidate != candidate)
            best[inside] = np.where(better, candidate, best[inside])
            index[inside] = np.where(better, here, index[inside])
        return best, index

    def _places(self, extents: tuple[int, ...]) -> Iterator[tuple[tuple[slice, ...], Array]]:
        """For each place in the window: where it is in padded x, and its index for each window.

        The first comes with the index of the first place that is not padding: the answer where
        nothing exceeds the padding.
        """
        windows = self.windows
        counts = windows.counts(extents)
        taps = [windows.taps(axis, count) for axis, count in enumerate(counts)]
        for place in np.ndindex(*self.kernel):
            index = self._index(extents, place if any(place) else None)
            yield (slice(None), *(taps[axis][k] for axis, k in enumerate(place))), index

    def _index(self, extents: tuple[int, ...], place: tuple[int, ...] | None) -> Array:
        """The index of a place for each window; without one, of the first that is not padding."""
        windows, counts = self.windows, self.windows.counts(extents)
        index = np.zeros((1, *(1 for _ in extents), 1), np.int64)
        for axis, extent in enumerate(extents):
            at = np.arange(counts[axis]) * self.strides[axis] - windows.begins[axis]
            first_inside = np.where(at < 0, -(at // self.dilations[axis]), 0)
            step = first_inside if place is None else place[axis]
            at = np.clip(at + step * self.dilations[axis], 0, max(0, extent - 1))
            index = index * extent + at.reshape(-1, *(1 for _ in extents[axis:]))
        return index


def _slice_op(place: tuple[slice, ...], shape: tuple[int, ...]) -> Slice:
    spatial = place[1:]
    starts, steps = (s.start for s in spatial), (s.step for s in spatial)
    return Slice((0, *starts, 0), shape, (1, *steps, 1))


@op("avg_pool")
class AvgPool(Pool):
    """The mean of each window, excluding or including padding.

    What `ceil_mode` lets a window see beyond the padding never counts.
    """

    count_include_pad: bool = False

    def infer(self, x: TensorType) -> TensorType:
        """One window a result position."""
        require_float(x=x)
        return self.pooled(x)

    def evaluate(self, x: Array) -> Array:
        """The sum of each window, times one by how many elements count."""
        total = self.combined(x, np.add, 0)
        return total * (1 / self.divisors(x.shape[1:-1])).astype(x.dtype)

    def lower(self, b: Builder, x: Value) -> Value:
        """The sum as a convolution of each channel with ones, times one by the count."""
        wide, channels = widened(b, x), x.type.shape[-1]
        pads = (*self.windows.begins, *self.windows.needed_ends(x.type.shape[1:-1]))
        ones = b.emit(Fill((channels, *self.kernel, 1), 1.0, wide.type.dtype))
        total = b.emit(Conv(self.strides, pads, self.dilations, channels), wide, ones)
        factors = (1 / self.divisors(x.type.shape[1:-1])).astype(wide.type.dtype.numpy)
        return narrowed(b, b.emit(Mul(), total, b.constant(factors, "factors")), x)

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """The share of an element, spread over the window by a transposed convolution with ones.

        It is only repeated if windows cover x side by side, and summed over windows of the same
        size if they move by single elements.
        """
        extents, channels = x.type.shape[1:-1], x.type.shape[-1]
        dtype, windows = x.type.dtype, self.windows
        factors = b.constant((1 / self.divisors(extents)).astype(dtype.numpy), "factors")
        share, mean = b.emit(Mul(), grad, factors), self._spreading(extents)
        if self._covers(extents):
            return (self._repeated(b, share, x),)
        if mean is not None:
            return (b.emit(Mul(), b.emit(mean, share), scalar(b, math.prod(self.kernel), x)),)
        pads = (*windows.begins, *windows.needed_ends(extents))
        seen = replace(windows, pads=pads).seen_extents(grad.type.shape[1:-1])
        unseen = tuple(n - m for n, m in zip(extents, seen, strict=True))
        spread = ConvTranspose(self.strides, pads, self.dilations, channels, unseen)
        ones = b.emit(Fill((channels, *self.kernel, 1), 1.0, dtype))
        return (b.emit(spread, share, ones),)

    def _covers(self, extents: tuple[int, ...]) -> bool:
        """Whether each element lies in exactly one window."""
        whole = all(n % k == 0 for n, k in zip(extents, self.kernel, strict=True))
        dense = self.strides == self.kernel and set(self.dilations) == {1}
        return whole and dense and not any(self.pads)

    def _repeated(self, b: Builder, share: Value, x: Value) -> Value:
        """The share of each window for all its elements."""
        batch, *counts, channels = share.type.shape
        apart = [n for count in counts for n in (count, 1)]
        wide = [n for pair in zip(counts, self.kernel, strict=True) for n in pair]
        split = b.emit(Reshape((batch, *apart, channels)), share)
        return b.emit(Reshape(x.type.shape), b.emit(Expand((batch, *wide, channels)), split))

    def _spreading(self, extents: tuple[int, ...]) -> AvgPool | None:
        """The mean of windows on shares that spreads them; None where windows move by steps."""
        begins, ends = [], []
        for axis, extent in enumerate(extents):
            count, reach = self.windows.count(axis, extent), self.windows.reach[axis]
            begins.append(reach - 1 - self.windows.begins[axis])
            ends.append(extent - count + reach - 1 - begins[-1])
            fits = min(begins[-1], ends[-1]) >= 0 and max(begins[-1], ends[-1]) < reach
            if not fits or (count > 1 and self.strides[axis] != 1):
                return None
        pads, steps = (*begins, *ends), (1,) * len(extents)
        return AvgPool(self.kernel, steps, pads, self.dilations, count_include_pad=True)

    def divisors(self, extents: tuple[int, ...]) -> Array:
        """How many elements count in each window: an array [result spatial…, 1]."""
        for extent in extents:
            exact_extent(extent, "how many elements count in a window")
        counted = [self._counted(axis, extent) for axis, extent in enumerate(extents)]
        return np.asarray(reduce(np.multiply.outer, counted))[..., None]

    def _counted(self, axis: int, extent: int) -> Array:
        begin, end = self.windows.begins[axis], self.windows.ends[axis]
        low, high = (-begin, extent + end) if self.count_include_pad else (0, extent)
        starts = np.arange(self.windows.count(axis, extent)) * self.strides[axis] - begin
        first, last = (-((starts - bound) // self.dilations[axis]) for bound in (low, high))
        return np.maximum(np.minimum(last, self.kernel[axis]) - np.maximum(first, 0), 1)


@op("lp_pool")
class LpPool(Pool):
    """The p-norm of each window: the p-th root of the sum of |x| to the p."""

    p: int = 2

    def infer(self, x: TensorType) -> TensorType:
        """One window a result position."""
        require_float(x=x)
        require(self.p >= 1, f"p must be at least 1, got {self.p}")
        return self.pooled(x)

    def evaluate(self, x: Array) -> Array:
        """Powers, their sum, and its root."""
        total = self.combined(np.abs(x) ** self.p, np.add, 0)
        return total ** (1 / self.p)

    def lower(self, b: Builder, x: Value) -> Value:
        """The sum is the mean times the size of the window, padding included."""
        windows = self.windows
        ends = windows.needed_ends(x.type.shape[1:-1])
        pads = (*windows.begins, *ends)
        mean = AvgPool(self.kernel, self.strides, pads, self.dilations, count_include_pad=True)
        power = b.emit(Pow(), b.emit(Abs(), x), scalar(b, self.p, x))
        total = b.emit(Mul(), b.emit(mean, power), scalar(b, math.prod(self.kernel), x))
        return b.emit(Pow(), total, scalar(b, 1 / self.p, x))
