"""TFLite's resizing of images."""

from __future__ import annotations

import numpy as np

from afterglow.frontends.definition.limits import check_resampled
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import tflite_op
from afterglow.graph import Value
from afterglow.ops.image import Coordinates, Interpolation, Resize, Rounding
from afterglow.ops.indexing import Gather
from afterglow.support.errors import ModelError
from afterglow.types import Array
from afterglow.types.extent import is_ranged, larger_extent


@tflite_op("RESIZE_BILINEAR")
def resize_bilinear(n: TfliteNode) -> Value:
    """Linear between the pixels around a place."""
    coordinates = Coordinates.ASYMMETRIC
    if n.flag("align_corners"):
        coordinates = Coordinates.ALIGN_CORNERS
    elif n.flag("half_pixel_centers"):
        coordinates = Coordinates.HALF_PIXEL
    shape = resized_shape(n)
    return n.emit(Resize(shape, _SCALES, Interpolation.LINEAR, coordinates), n[0])


@tflite_op("RESIZE_NEAREST_NEIGHBOR", moves=True)
def resize_nearest(n: TfliteNode) -> Value:
    """The pixel below a place, or the nearest if corners are aligned."""
    shape = resized_shape(n)
    coordinates, rounding = Coordinates.ASYMMETRIC, Rounding.FLOOR
    if n.flag("align_corners"):
        coordinates, rounding = Coordinates.ALIGN_CORNERS, Rounding.HALF_UP
    elif n.flag("half_pixel_centers"):
        coordinates = Coordinates.HALF_PIXEL_UNSHIFTED
    op = Resize(shape, _SCALES, Interpolation.NEAREST, coordinates, rounding)
    pairs = [(n[0].type.shape[axis], shape[axis]) for axis in (1, 2)]
    if any(is_ranged(extent) for pair in pairs for extent in pair):
        return n.emit(op, n[0])
    places = [_places(n, *pair) for pair in pairs]
    exact = [_exact_places(n, *pair) for pair in pairs]
    if all(map(np.array_equal, places, exact)):
        return n.emit(op, n[0])
    rows = n.emit(Gather(1), n[0], n.constant(places[0]))
    return n.emit(Gather(2), rows, n.constant(places[1]))


_SCALES = (1.0, 0.0, 0.0, 1.0)
"""Those of rows and columns follow from the extents."""


def resized_shape(n: TfliteNode) -> tuple[int, ...]:
    """The shape of the result: operand 1 has its rows and columns."""
    batch, height, width, channels = n.extents(n[0], 4)
    sizes = n.known_extents(1)
    if len(sizes) != 2 or min(*sizes, height, width) < 1:
        raise ModelError(f"{n[0].type} cannot be resized to {sizes}")
    check_resampled(larger_extent(*sizes))
    return batch, *sizes, channels


def _places(n: TfliteNode, extent: int, size: int) -> Array:
    """Which pixels are taken along an axis, by single precision as TFLite finds them."""
    aligned, shifted = n.flag("align_corners"), n.flag("half_pixel_centers")
    spans = (extent - 1, size - 1) if aligned and size > 1 else (extent, size)
    scale = np.float32(spans[0]) / np.float32(spans[1])
    places = (np.arange(size, dtype=np.float32) + np.float32(0.5 * shifted)) * scale
    found = np.floor(places + np.float32(0.5)) if aligned else np.floor(places)
    return np.asarray(np.clip(found, 0, extent - 1), np.int64)


def _exact_places(n: TfliteNode, extent: int, size: int) -> Array:
    """The same without rounding errors, as the op finds them."""
    aligned, shifted = n.flag("align_corners"), n.flag("half_pixel_centers")
    steps = np.arange(size)
    if aligned:
        found = (2 * steps * (extent - 1) + max(size - 1, 1)) // (2 * max(size - 1, 1))
    else:
        found = (2 * steps + int(shifted)) * extent // (2 * size)
    return np.asarray(np.clip(found, 0, extent - 1))
