"""TFLite's resizing of images of quantized integers, linear between pixels."""

from __future__ import annotations

import numpy as np

from afterglow.frontends.tflite.importers.image import resized_shape
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import quantized_op
from afterglow.graph import Value
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, Mul, ShiftRight, scalar
from afterglow.ops.indexing import Gather
from afterglow.types import Array, DType
from afterglow.types.dtype import f32, i16, i32, i64, u8

_BITS = 10
"""Bits below one of a place between two pixels."""


@quantized_op("RESIZE_BILINEAR")
def resize_bilinear(n: TfliteNode) -> Value:
    """In integers, rounded with halves away from zero; of u8 in floats, halves up."""
    x = n[0]
    if x.type.dtype is u8:
        return _in_floats(n)
    wide = i64 if x.type.dtype is i16 else i32
    y = n.emit(Cast(wide), x)
    for axis in (1, 2):
        y = _interpolated(n, y, axis, resized_shape(n)[axis], wide)
    sign = n.emit(ShiftRight(), y, scalar(n.builder, wide.bits - 1, y))
    half = scalar(n.builder, 1 << (2 * _BITS - 1), y)
    moved = n.emit(Add(), n.emit(Add(), y, half), sign)
    rounded = n.emit(ShiftRight(), moved, scalar(n.builder, 2 * _BITS, y))
    return n.emit(Cast(x.type.dtype), rounded)


def _interpolated(n: TfliteNode, x: Value, axis: int, size: int, wide: DType) -> Value:
    """1024 times what lies between pixels along an axis."""
    lower, upper, share = _places(n, x.type.shape[axis], size)
    parts = []
    for places, weights in ((lower, (1 << _BITS) - share), (upper, share)):
        taken = n.emit(Gather(axis), x, n.constant(places, "places"))
        parts.append(n.emit(Mul(), taken, _along(n, weights.astype(wide.numpy), axis)))
    return n.emit(Add(), *parts)


def _places(n: TfliteNode, extent: int, size: int) -> tuple[Array, Array, Array]:
    """The pixels before and after each place, and how far it is from the first, in 1024ths."""
    one = 1 << _BITS
    if n.flag("align_corners") and size > 1:
        scale = (one * (extent - 1) + (size - 1) // 2) // (size - 1)
    else:
        scale = (one * extent + size // 2) // size
    places = np.arange(size, dtype=np.int64) * scale
    if n.flag("half_pixel_centers"):
        places = places + scale // 2 - one // 2
    lower = np.maximum(np.trunc(places / one).astype(np.int64), 0)
    upper = np.trunc((places + one - 1) / one).astype(np.int64)
    return lower, np.clip(upper, 0, extent - 1), places - one * lower


def _along(n: TfliteNode, numbers: Array, axis: int) -> Value:
    """Numbers of an axis of an image, shaped so that they broadcast."""
    return n.constant(numbers.reshape([-1 if axis == each else 1 for each in range(4)]), "share")


def _in_floats(n: TfliteNode) -> Value:
    """The sum of four pixels, each times two shares."""
    x, shape = n.emit(Cast(f32), n[0]), resized_shape(n)
    rows, columns = (_float_places(n, n[0].type.shape[axis], shape[axis]) for axis in (1, 2))
    total: Value | None = None
    for column, across in columns:
        for row, down in rows:
            taken = n.emit(Gather(1), x, n.constant(row, "places"))
            taken = n.emit(Gather(2), taken, n.constant(column, "places"))
            part = n.emit(Mul(), taken, _along(n, down, 1))
            part = n.emit(Mul(), part, _along(n, across, 2))
            total = part if total is None else n.emit(Add(), total, part)
    assert total is not None
    return n.emit(Cast(u8), n.emit(Add(), total, scalar(n.builder, 0.5, total)))


def _float_places(n: TfliteNode, extent: int, size: int) -> list[tuple[Array, Array]]:
    """The pixels before and after each place, each with its share, by single precision."""
    spans = (extent - 1, size - 1) if n.flag("align_corners") and size > 1 else (extent, size)
    scale = np.float32(spans[0]) / np.float32(spans[1])
    steps = np.arange(size, dtype=np.float32)
    half = np.float32(0.5)
    places = (steps + half) * scale - half if n.flag("half_pixel_centers") else steps * scale
    lower = np.maximum(np.floor(places), 0).astype(np.int64)
    upper = np.clip(np.ceil(places), 0, extent - 1).astype(np.int64)
    share = places - lower.astype(np.float32)
    return [(lower, np.float32(1) - share), (upper, share)]
