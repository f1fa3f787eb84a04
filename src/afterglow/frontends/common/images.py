"""Resampling, grids of places, and images of overlapping blocks; their channels come first."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from afterglow.frontends.common.layout import to_channels_first, to_channels_last
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.definition.limits import check_resampled
from afterglow.graph import Value
from afterglow.ops.conversion import Cast
from afterglow.ops.convolution import ConvTranspose
from afterglow.ops.elementwise import Add, Mul, scalar
from afterglow.ops.image import Interpolation, Resize
from afterglow.ops.indexing import Iota
from afterglow.ops.movement import Reshape, Tile, slice_axis
from afterglow.ops.windows import Windows
from afterglow.support.errors import ModelError
from afterglow.types import DType
from afterglow.types.dtype import i64
from afterglow.types.extent import is_ranged, smallest

_TAPS = {Interpolation.NEAREST: 1, Interpolation.LINEAR: 2, Interpolation.CUBIC: 4}


def resample(n: NodeContext, x: Value, op: Resize) -> Value:
    """x resampled; channels last where batch and channels stay as they are."""
    rank, axes = x.type.rank, op.resized_axes(x.type.shape)
    if not axes:
        return x
    for axis in axes:
        check_resampled(op.sizes[axis] * _TAPS[op.mode])
    if rank < 3 or min(axes) < 2:
        return n.emit(op, x)
    last = op.permuted((0, *range(2, rank), 1))
    return to_channels_first(n, n.emit(last, to_channels_last(n, x)))


def scale_of(size: int, extent: int) -> float:
    """How much an axis is scaled; 0, for what it is in a run, if that depends on extents."""
    if not is_ranged(size) and not is_ranged(extent):
        return size / extent if extent else 1.0
    for larger, smaller, power in ((size, extent, 1), (extent, size, -1)):
        times = larger // smaller if smallest(smaller) > 0 else smaller
        if not is_ranged(times) and smaller * times == larger:
            return float(times) ** power
    return 0.0


def affine_grid_of(
    n: NodeContext, theta: Value, size: Sequence[int], *, aligned: bool, alone: float = -1.0
) -> Value:
    """Where theta [N, axes, axes + 1] takes each place of an image: [N, spatial…, axes].

    `alone` is where the only pixel of an axis lies if corners are aligned.
    """
    batch, _, *spatial = size
    axes = len(spatial)
    if theta.type.shape != (batch, axes, axes + 1):
        raise ModelError(f"theta must be [{batch}, {axes}, {axes + 1}], it is {theta.type}")
    result = _column(n, theta, axes)
    for axis, extent in enumerate(spatial):
        first = alone if extent == 1 else -1.0
        along = _places(n, extent, theta.type.dtype, first if aligned else None)
        places = n.emit(Reshape((extent, *[1] * (axes - axis))), along)
        factor = _column(n, theta, axes - 1 - axis)
        result = n.emit(Add(), n.emit(Mul(), factor, places), result)
    return result


def _column(n: NodeContext, theta: Value, index: int) -> Value:
    """A column of each matrix, as [N, 1…, axes]."""
    batch, axes, _ = theta.type.shape
    column = n.emit(slice_axis(theta.type, 2, index, 1), theta)
    return n.emit(Reshape((batch, *[1] * axes, axes)), column)


def _places(n: NodeContext, extent: int, dtype: DType, first: float | None) -> Value:
    """Coordinates of pixels along an axis: from `first` to 1, or of their centres in -1 … 1."""
    step = 2 / extent if first is None else 2 / max(1, extent - 1)
    start = step / 2 - 1 if first is None else first
    places = n.emit(Cast(dtype), n.emit(Iota((extent,), 0, i64)))
    scaled = n.emit(Mul(), places, scalar(n.builder, step, places))
    return n.emit(Add(), scaled, scalar(n.builder, start, places))


def image_of_columns(n: NodeContext, x: Value, image: tuple[int, ...], w: Windows) -> Value:
    """Overlapping blocks summed up: a transposed convolution, each place of a block its own tap."""
    kernel, places = w.kernel, math.prod(w.kernel)
    if not kernel or places < 1 or len(image) != len(kernel) or min(w.strides) < 1:
        raise ModelError(f"blocks of {kernel} do not make up an image of {image}")
    channels = n.extents(x, 3)[1] // places
    columns = n.emit(Reshape((*x.type.shape[:2], *w.counts(image))), x)
    taps = np.eye(places, dtype=x.type.dtype.numpy).reshape(places, *kernel, 1)
    weight = n.emit(Tile((channels, *(1 for _ in kernel), 1)), n.constant(taps))
    unseen = (
        (extent + begin + end - reach) % stride
        for extent, begin, end, reach, stride in zip(
            image, w.begins, w.ends, w.reach, w.strides, strict=True
        )
    )
    op = ConvTranspose(w.strides, w.pads, w.dilations, channels, tuple(unseen))
    return to_channels_first(n, n.emit(op, to_channels_last(n, columns), weight))
