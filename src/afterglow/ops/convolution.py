"""Convolutions, channels last."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from afterglow.graph import Band, Builder, Cut, Gradients, Halo, Op, Value, op
from afterglow.ops.linear import multiply_matrices
from afterglow.ops.movement import Pad, Reshape, Slice, Transpose, with_zeros_between
from afterglow.ops.rules import require, require_number, require_same_dtype, require_shape
from afterglow.ops.windows import Windows
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, TensorType
from afterglow.types.extent import smallest

_BLOCK_BYTES = 32 * 2**20
"""Windows are gathered in blocks of at most about this size, for memory and for the cache."""


@dataclass(frozen=True, repr=False)
class Convolution(Op):
    """Base: the attributes and the geometry that a convolution and its transpose share."""

    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    groups: int = 1

    def windows(self, weight: tuple[int, ...]) -> Windows:
        """The geometry, for a weight of that shape."""
        return Windows(weight[1:-1], self.strides, self.pads, self.dilations)

    def checked_windows(self, x: TensorType, weight: TensorType) -> Windows:
        """The geometry, for operands that have numbers of one type and fitting axes."""
        require_number(x=x, weight=weight)
        require_same_dtype(x=x, weight=weight)
        require(weight.rank >= 3, f"weight must have three axes or more, got {weight}")
        windows = self.windows(weight.shape)
        windows.check(x)
        return windows

    def weight_gradient(self, b: Builder, x: Value, grad: Value, weight: tuple[int, ...]) -> Value:
        """The gradient of the weight, given its shape: a product of x and a gradient."""
        geometry = self.strides, self.pads, self.dilations, self.groups
        return b.emit(ConvWeightGradient(*geometry, weight[1:-1]), x, grad)


@op("conv")
class Conv(Convolution):
    """Convolution of x [N, spatial…, C] with weight [O, kernel…, C / groups], plus bias [O].

    Result channel o of group g sees only the channels of x in group g. Pads are zeros, begins
    then ends. As everywhere in neural networks, the kernel is not mirrored.
    """

    def infer(
        self, x: TensorType, weight: TensorType, bias: TensorType | None = None
    ) -> TensorType:
        """One window a result position, one row of the weight a channel."""
        windows = self.checked_windows(x, weight)
        channels, results = x.shape[-1], weight.shape[0]
        require(
            channels == weight.shape[-1] * self.groups and results % self.groups == 0,
            f"channels do not fit {self.groups} groups: x {x}, weight {weight}",
        )
        _check_bias(x, results, bias)
        return TensorType(x.dtype, (x.shape[0], *windows.counts(x.shape[1:-1]), results))

    def evaluate(self, x: Array, weight: Array, bias: Array | None = None) -> Array:
        """Depthwise tap by tap, else as a matrix product over gathered windows."""
        windows = self.windows(weight.shape)
        counts = windows.counts(x.shape[1:-1])
        result = np.zeros((x.shape[0], *counts, weight.shape[0]), x.dtype)
        if result.size and weight.size:
            by_group = result.reshape(*result.shape[:-1], self.groups, -1)
            if windows.pads_dominate(x.shape, result.size):
                _convolve_seen(windows, x, weight, by_group)
            else:
                depthwise = weight.shape[-1] == 1 < self.groups
                convolve = _convolve_depthwise if depthwise else _convolve_gathered
                padded = np.ascontiguousarray(windows.padded(x, 0))  # BLAS wants rows, not strides
                convolve(windows, padded, np.ascontiguousarray(weight), by_group)
        return result if bias is None else np.add(result, bias, out=result)

    def gradient(
        self,
        b: Builder,
        out: Value,
        grad: Value,
        x: Value,
        weight: Value,
        bias: Value | None = None,
    ) -> Gradients:
        """The transpose of the convolution spreads it; the bias gets the sum of each channel."""
        windows = self.windows(weight.type.shape)
        seen = windows.seen_extents(grad.type.shape[1:-1])
        unseen = tuple(n - m for n, m in zip(x.type.shape[1:-1], seen, strict=True))
        spread = ConvTranspose(self.strides, self.pads, self.dilations, self.groups, unseen)
        slopes = self.weight_gradient(b, x, grad, weight.type.shape)
        return b.emit(spread, grad, weight), slopes, grad

    def with_halo(self, operands: Sequence[TensorType | None]) -> Halo | None:
        """Zeros all around."""
        x, weight = self.required_of(operands)
        bare = replace(self, pads=(0,) * len(self.pads))
        return self.windows(weight.shape).halo(x, 0.0, bare)

    def parallel(
        self, axis: int, result: TensorType, operands: Sequence[TensorType | None]
    ) -> tuple[int | None, ...] | None:
        """Images follow x; result channels follow the weight, unless they fall into groups."""
        if axis == 0:
            return (0, *(None for _ in operands[1:]))
        if axis == result.rank - 1 and self.groups == 1:
            return (None, *(0 for _ in operands[1:]))
        return None

    def band(
        self, cut: Cut, result: TensorType, operands: Sequence[TensorType | None]
    ) -> Band | None:
        """Rows come from the rows that their windows see, whole groups from their own channels."""
        x, weight = self.required_of(operands)
        if 0 < cut.axis < result.rank - 1:
            seen = self.windows(weight.shape).band(cut, x.shape[cut.axis])
            if seen is None:
                return None
            return Band(replace(self, pads=seen[1]), (seen[0], *(None for _ in operands[1:])))
        if cut.axis == 0 or self.groups == 1:
            return super().band(cut, result, operands)
        results, channels = weight.shape[0] // self.groups, weight.shape[-1]
        if cut.start % results or cut.stop % results:
            return None
        first, last = cut.start // results, cut.stop // results
        source = Cut(cut.axis, first * channels, last * channels)
        rows = Cut(0, cut.start, cut.stop)
        return Band(replace(self, groups=last - first), (source, *(rows for _ in operands[1:])))

    def work(self, result: TensorType, operands: Sequence[TensorType | None]) -> int:
        """The multiplications."""
        weight = self.required_of(operands)[1]
        return result.size * math.prod(weight.shape[1:])


def _check_bias(x: TensorType, channels: int, bias: TensorType | None) -> None:
    """A bias that is given has one element of the type of x for each result channel."""
    if bias is not None:
        require_same_dtype(x=x, bias=bias)
        require_shape((channels,), bias=bias)


def _convolve_depthwise(windows: Windows, x: Array, weight: Array, result: Array) -> None:
    """Add to result [N, out…, C, multiplier] the product of each tap with x shifted by it."""
    counts, channels = result.shape[1:-2], result.shape[-2]
    taps = [windows.taps(axis, count) for axis, count in enumerate(counts)]
    by_channel = weight.reshape(channels, -1, *windows.kernel)
    product = np.empty_like(result)
    for place in np.ndindex(*windows.kernel):
        shifted = x[(slice(None), *(taps[axis][k] for axis, k in enumerate(place)))]
        factor = by_channel[(slice(None), slice(None), *place)]
        np.multiply(shifted[..., None], factor, out=product)
        result += product


def _convolve_seen(windows: Windows, x: Array, weight: Array, result: Array) -> None:
    """Add to result [N, out…, groups, O / groups] tap by tap what x itself has, not its padding."""
    groups, results = result.shape[-2:]
    matrices = weight.reshape(groups, results, *windows.kernel, -1)
    by_group = x.reshape(*x.shape[:-1], groups, -1)
    axes = enumerate(zip(x.shape[1:-1], result.shape[1:-2], strict=True))
    taps = [windows.seeing_taps(axis, extent, count) for axis, (extent, count) in axes]
    for place in itertools.product(*taps):
        source = (windows.places(axis, *seen) for axis, seen in enumerate(place))
        rows = np.moveaxis(by_group[(slice(None), *source)], -2, 0)
        at: tuple[Any, ...] = (slice(None), slice(None), *(tap for tap, _ in place))
        matrix = matrices[at].swapaxes(1, 2)
        flat = _products(rows.reshape(groups, -1, rows.shape[-1]), matrix)
        product = np.moveaxis(flat.reshape(*rows.shape[:-1], results), 0, -2)
        result[(slice(None), *(slice(w.start, w.stop) for _, w in place))] += product


def _convolve_gathered(windows: Windows, x: Array, weight: Array, result: Array) -> None:
    """Fill result [N, out…, groups, O / groups] with products of windows and weights."""
    groups = result.shape[-2]
    matrices = weight.reshape(groups, result.shape[-1], -1).swapaxes(1, 2)
    view = windows.views(x, result.shape[1:-2], groups)
    size = math.prod(weight.shape[1:])
    for index in _blocks(result.shape, size * groups * x.itemsize):
        block = view[(slice(None), *index)]
        target = result[index]
        columns = block.reshape(groups, -1, size)
        product = _products(columns, matrices)
        target[...] = np.moveaxis(product, 0, -2).reshape(target.shape)


def _products(rows: Array, matrices: Array) -> Array:
    """Matrix products; those of f32 are summed in doubles.

    Libraries of matrix products round columns at an edge differently: equal filters would give
    different numbers, and others on another processor.
    """
    if rows.dtype != np.float32:
        return multiply_matrices(rows, matrices)
    wide = np.float64
    return multiply_matrices(rows.astype(wide), matrices.astype(wide)).astype(np.float32)


def _blocks(shape: tuple[int, ...], window_bytes: int) -> Iterator[tuple[slice, ...]]:
    """Cut result positions into runs along the batch and the first spatial axis."""
    batch, rows, *others = shape[:-2]
    row_bytes = math.prod(others) * window_bytes
    images = max(1, _BLOCK_BYTES // (row_bytes * rows))
    step = max(1, _BLOCK_BYTES // row_bytes)
    for first in range(0, batch, images):
        for row in range(0, rows, step):
            yield (slice(first, first + images), slice(row, row + step))


@op("conv_transpose")
class ConvTranspose(Convolution):
    """Transposed convolution of x [N, spatial…, C] with weight [C, kernel…, O / groups].

    Each element of x adds its product with the weight to the window of the result that starts at
    its position times the stride. Then `pads` (begins, ends) are cut off and `output_pads` rows
    are added behind. The result of group g comes from the channels of x in group g alone.
    """

    output_pads: tuple[int, ...] = ()

    def infer(
        self, x: TensorType, weight: TensorType, bias: TensorType | None = None
    ) -> TensorType:
        """The extents of the convolution's operand."""
        windows = self.checked_windows(x, weight)
        require(0 not in x.shape[1:-1], f"x must have spatial extents above 0, got {x}")
        require(
            x.shape[-1] == weight.shape[0] and self.groups > 0 and not x.shape[-1] % self.groups,
            f"channels do not fit {self.groups} groups: x {x}, weight {weight}",
        )
        added = self._added(windows)
        require(len(added) == len(windows.kernel), "output_pads must have one entry per axis")
        results = weight.shape[-1] * self.groups
        _check_bias(x, results, bias)
        extents = self._extents(windows, x.shape[1:-1])
        enough = all(smallest(extent) >= 0 for extent in extents)
        require(enough, f"pads {self.pads} cut off more than there is: {extents}")
        return TensorType(x.dtype, (x.shape[0], *extents, results))

    def evaluate(self, x: Array, weight: Array, bias: Array | None = None) -> Array:
        """Add x, times one tap of the kernel after the other, to the results that it reaches."""
        windows = self.windows(weight.shape)
        counts, results = x.shape[1:-1], weight.shape[-1] * self.groups
        extents = self._extents(windows, counts)
        result = np.zeros((x.shape[0], *extents, results), x.dtype)
        inner = x.shape[-1] // self.groups
        matrices = weight.reshape(self.groups, inner, *weight.shape[1:])
        axes = enumerate(zip(extents, counts, strict=True))
        taps = [windows.seeing_taps(axis, extent, count) for axis, (extent, count) in axes]
        for place in itertools.product(*taps):
            part = x[(slice(None), *(slice(w.start, w.stop) for _, w in place))]
            rows = np.moveaxis(part.reshape(math.prod(part.shape[:-1]), self.groups, inner), 1, 0)
            at: tuple[Any, ...] = (slice(None), slice(None), *(tap for tap, _ in place))
            matrix = matrices[at]
            product = np.moveaxis(multiply_matrices(rows, matrix), 0, 1)
            target = (slice(None), *(windows.places(axis, *w) for axis, w in enumerate(place)))
            result[target] += product.reshape(*part.shape[:-1], results)
        return result if bias is None else result + bias

    def gradient(
        self,
        b: Builder,
        out: Value,
        grad: Value,
        x: Value,
        weight: Value,
        bias: Value | None = None,
    ) -> Gradients:
        """The convolution that it transposes gathers it; the bias gets the sum of each channel."""
        gather = Conv(self.strides, self.pads, self.dilations, self.groups)
        gathered = b.emit(gather, grad, weight)
        kept = _first_rows(b, gathered, x.type.shape)
        return kept, self.weight_gradient(b, grad, x, weight.type.shape), grad

    def lower(self, b: Builder, x: Value, weight: Value, bias: Value | None = None) -> Value:
        """A convolution of x with zeros between its elements and the kernel mirrored."""
        windows = self.windows(weight.type.shape)
        spread = with_zeros_between(b, x, (1, *self.strides, 1))
        pads, axes = self.pads_of_convolution(weight.type.shape), len(windows.kernel)
        if min(pads) < 0:
            spread = _padded_or_cut(b, spread, pads[:axes], pads[axes:])
            pads = (0,) * len(pads)
        plain = Conv((1,) * axes, pads, self.dilations, self.groups)
        return b.emit(plain, spread, self._mirrored(b, weight), bias)

    def pads_of_convolution(self, weight: tuple[int, ...]) -> tuple[int, ...]:
        """Around x, spread by the strides, those of the convolution with the kernel mirrored.

        Negative ones say how much is cut off instead.
        """
        windows = self.windows(weight)
        margins = [reach - 1 for reach in windows.reach]
        before = (m - pad for m, pad in zip(margins, windows.begins, strict=True))
        ends = zip(margins, windows.ends, self._added(windows), strict=True)
        return (*before, *(m - pad + added for m, pad, added in ends))

    def _added(self, windows: Windows) -> tuple[int, ...]:
        return self.output_pads or (0,) * len(windows.kernel)

    def _extents(self, windows: Windows, counts: tuple[int, ...]) -> tuple[int, ...]:
        seen = windows.seen_extents(counts)
        return tuple(map(sum, zip(seen, self._added(windows), strict=True)))

    def _mirrored(self, b: Builder, weight: Value) -> Value:
        """From [C, kernel…, O / groups] to [O, kernel…, C / groups], the kernel from behind."""
        channels, *kernel, results = weight.type.shape
        starts, steps = [k - 1 for k in kernel], [-1 for _ in kernel]
        flipped = b.emit(Slice((0, *starts, 0), weight.type.shape, (1, *steps, 1)), weight)
        inner = channels // self.groups
        by_group = b.emit(Reshape((self.groups, inner, *kernel, results)), flipped)
        rank = len(kernel) + 3
        swapped = b.emit(Transpose((0, rank - 1, *range(2, rank - 1), 1)), by_group)
        return b.emit(Reshape((self.groups * results, *kernel, inner)), swapped)

    def parallel(
        self, axis: int, result: TensorType, operands: Sequence[TensorType | None]
    ) -> tuple[int | None, ...] | None:
        """Images follow x; result channels follow the weight, unless they fall into groups."""
        if axis == 0:
            return (0, *(None for _ in operands[1:]))
        if axis == result.rank - 1 and self.groups == 1:
            return (None, axis, 0)[: len(operands)]
        return None

    def band(
        self, cut: Cut, result: TensorType, operands: Sequence[TensorType | None]
    ) -> Band | None:
        """Rows come from all rows of x that reach them; what sticks out is cut off as padding."""
        x, weight = self.required_of(operands)
        if not 0 < cut.axis < result.rank - 1:
            return super().band(cut, result, operands)
        windows, axis = self.windows(weight.shape), cut.axis - 1
        stride, reach = self.strides[axis], windows.reach[axis]
        first, last = cut.start + windows.begins[axis], cut.stop + windows.begins[axis]
        start = max(0, min((first - reach) // stride + 1, first // stride))
        stop = min(x.shape[cut.axis], (last - 1) // stride + 1)
        if start >= stop:
            return None
        pads, added = list(self.pads), list(self._added(windows))
        beyond = (stop - 1) * stride + reach - last
        pads[axis] = first - start * stride
        pads[axis + len(windows.kernel)], added[axis] = max(0, beyond), max(0, -beyond)
        op = replace(self, pads=tuple(pads), output_pads=tuple(added))
        return Band(op, (Cut(cut.axis, start, stop), *(None for _ in operands[1:])))

    def work(self, result: TensorType, operands: Sequence[TensorType | None]) -> int:
        """The multiplications."""
        x, weight = self.required_of(operands)
        return x.size * math.prod(weight.shape[1:])


@op("conv_weight_gradient")
class ConvWeightGradient(Convolution):
    """The gradient of a convolution's weight: from x and slopes, the gradient of its result.

    Each element of it [O, kernel…, C / groups] is a sum over all windows: of the element of x
    [N, spatial…, C] that its tap sees there, times the slope [N, windows…, O] of its channel.
    """

    kernel: tuple[int, ...] = ()

    def infer(self, x: TensorType, slopes: TensorType) -> TensorType:
        """The weight's own shape."""
        require_number(x=x, slopes=slopes)
        require_same_dtype(x=x, slopes=slopes)
        windows = self._windows
        windows.check(x)
        channels, results = x.shape[-1], slopes.shape[-1]
        require(
            self.groups > 0 and channels % self.groups == 0 and results % self.groups == 0,
            f"channels do not fit {self.groups} groups: x {x}, slopes {slopes}",
        )
        counts = windows.counts(x.shape[1:-1])
        fits = slopes.rank == x.rank and slopes.shape[0] == x.shape[0]
        spatial = zip(counts, slopes.shape[1:-1], strict=False)
        fits = fits and all(smallest(count - own) >= 0 for count, own in spatial)
        require(
            fits, f"slopes must have a row for each of the windows {counts} of x {x}, got {slopes}"
        )
        return TensorType(x.dtype, (results, *self.kernel, channels // self.groups))

    @property
    def _windows(self) -> Windows:
        return Windows(self.kernel, self.strides, self.pads, self.dilations)

    def evaluate(self, x: Array, slopes: Array) -> Array:
        """A matrix product for each tap, over the windows in which it sees some of x."""
        groups, windows = self.groups, self._windows
        inner, results = x.shape[-1] // groups, slopes.shape[-1] // groups
        by_group = x.reshape(*x.shape[:-1], groups, inner)
        by_result = slopes.reshape(*slopes.shape[:-1], groups, results)
        result = np.zeros((groups, results, *self.kernel, inner), x.dtype)
        axes = enumerate(zip(x.shape[1:-1], slopes.shape[1:-1], strict=True))
        taps = [windows.seeing_taps(axis, extent, count) for axis, (extent, count) in axes]
        for place in itertools.product(*taps) if result.size else ():
            source = (windows.places(axis, *seen) for axis, seen in enumerate(place))
            rows = by_group[(slice(None), *source)]
            part = by_result[(slice(None), *(slice(w.start, w.stop) for _, w in place))]
            lhs, rhs = (_by_group(operand) for operand in (part, rows))
            at: tuple[Any, ...] = (slice(None), slice(None), *(tap for tap, _ in place))
            result[at] = multiply_matrices(lhs.swapaxes(1, 2), rhs)
        return result.reshape(groups * results, *self.kernel, inner)

    def parallel(
        self, axis: int, result: TensorType, operands: Sequence[TensorType | None]
    ) -> tuple[int | None, ...] | None:
        """Channels of results follow the slopes, those of x follow x, unless they have groups."""
        last = result.rank - 1
        if self.groups != 1 or axis not in (0, last):
            return None
        return (None, last) if axis == 0 else (last, None)

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value, slopes: Value) -> Gradients:
        """It is linear in both: x gets the convolution's transpose, its gradient a convolution."""
        geometry = self.strides, self.pads, self.dilations, self.groups
        seen = self._windows.seen_extents(slopes.type.shape[1:-1])
        unseen = tuple(n - m for n, m in zip(x.type.shape[1:-1], seen, strict=True))
        spread = b.emit(ConvTranspose(*geometry, unseen), slopes, grad)
        return spread, _first_rows(b, b.emit(Conv(*geometry), x, grad), slopes.type.shape)

    def lower(self, b: Builder, x: Value, slopes: Value) -> Value:
        """A convolution of x with the slopes as the kernel, images and channels exchanged.

        The kernel has its places `strides` apart, at positions `dilations` apart.
        """
        batch, *extents, channels = x.type.shape
        rank, inner = x.type.rank, channels // self.groups
        apart = b.emit(Reshape((batch, *extents, self.groups, inner)), x)
        moved = b.emit(Transpose((rank, *range(1, rank), 0)), apart)
        images = b.emit(Reshape((inner, *extents, self.groups * batch)), moved)
        kernel = b.emit(Transpose((rank - 1, *range(1, rank - 1), 0)), slopes)
        begins = self._windows.begins
        bare = (*begins, *(0 for _ in begins))
        turned = Windows(slopes.type.shape[1:-1], self.dilations, bare, self.strides)
        missing = zip(turned.seen_extents(self.kernel), extents, strict=True)
        ends = tuple(max(0, seen - extent) for seen, extent in missing)
        product = Conv(self.dilations, (*begins, *ends), self.strides, self.groups)
        found = b.emit(product, images, kernel)
        kept = _first_rows(b, found, (inner, *self.kernel, slopes.type.shape[-1]))
        return b.emit(Transpose((rank - 1, *range(1, rank - 1), 0)), kept)

    def work(self, result: TensorType, operands: Sequence[TensorType | None]) -> int:
        """The multiplications, those with padding included."""
        slopes = self.required_of(operands)[1]
        return result.size * math.prod(slopes.shape[:-1])


def _by_group(rows: Array) -> Array:
    """[N, spatial…, groups, channels] as a matrix of channels for each group."""
    return np.moveaxis(rows.reshape(math.prod(rows.shape[:-2]), *rows.shape[-2:]), 1, 0)


def _first_rows(b: Builder, x: Value, shape: tuple[int, ...]) -> Value:
    """x, cut off behind a shape."""
    return b.emit(Slice((0,) * len(shape), shape, (1,) * len(shape)), x)


def _padded_or_cut(b: Builder, x: Value, before: Sequence[int], after: Sequence[int]) -> Value:
    """x with zeros around it where a count is positive, cut where it is negative."""
    grown = Pad((0, *(max(0, n) for n in before), 0), (0, *(max(0, n) for n in after), 0))
    padded = b.emit(grown, x)
    batch, *extents, channels = x.type.shape
    kept = [sum(sides) for sides in zip(before, extents, after, strict=True)]
    starts = [max(0, -n) for n in before]
    rank = x.type.rank
    return b.emit(Slice((0, *starts, 0), (batch, *kept, channels), (1,) * rank), padded)
