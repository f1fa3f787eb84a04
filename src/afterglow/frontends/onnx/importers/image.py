"""ONNX's image ops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeVar

import numpy as np

from afterglow.frontends.common.images import (
    affine_grid_of,
    image_of_columns,
    resample,
    scale_of,
)
from afterglow.frontends.common.layout import to_channels_first, to_channels_last
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.importers.windows import given_windows
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.ops.grid_sample import GridSample
from afterglow.ops.image import Coordinates, Interpolation, Resize, Rounding
from afterglow.ops.movement import Pad, Slice
from afterglow.ops.rules import normal_axis
from afterglow.ops.sampling import Border
from afterglow.support.errors import ModelError
from afterglow.types import Array
from afterglow.types.extent import is_ranged, largest, undecided

NumbersT = TypeVar("NumbersT", Array, tuple[int, ...])

_COORDINATES = {
    "half_pixel": Coordinates.HALF_PIXEL,
    "half_pixel_symmetric": Coordinates.HALF_PIXEL_SYMMETRIC,
    "pytorch_half_pixel": Coordinates.HALF_PIXEL_OR_START,
    "tf_half_pixel_for_nn": Coordinates.HALF_PIXEL_UNSHIFTED,
    "align_corners": Coordinates.ALIGN_CORNERS,
    "asymmetric": Coordinates.ASYMMETRIC,
    "tf_crop_and_resize": Coordinates.CROP,
}
_ROUNDING = {
    "round_prefer_floor": Rounding.HALF_DOWN,
    "round_prefer_ceil": Rounding.HALF_UP,
    "floor": Rounding.FLOOR,
    "ceil": Rounding.CEIL,
}
_INTERPOLATION = {
    "nearest": Interpolation.NEAREST,
    "linear": Interpolation.LINEAR,
    "bilinear": Interpolation.LINEAR,
    "cubic": Interpolation.CUBIC,
}
_MOST_DENOMINATOR = 2**12
"""Scales up to this denominator times extents are exact in single precision."""
_SAMPLING = {**_INTERPOLATION, "bicubic": Interpolation.CUBIC}
_BORDERS = {"zeros": Border.ZEROS, "border": Border.EDGE, "reflection": Border.REFLECT}


@onnx_op("Upsample", "Resize")
def upsample(n: NodeContext) -> Value:
    """Scales alone, which older versions have as attributes.

    The nearest element is the one before where the result grows, the one behind where it shrinks.
    """
    x = n[0]
    if n.has("scales"):
        scales = np.array(n.attribute("scales"), np.float32)
    elif n.has("height_scale"):
        factors = (1, 1, n.number("height_scale"), n.number("width_scale"))
        scales = np.array(factors, np.float32)
    else:
        scales = _known_floats(n, 1)
    sizes = _scaled(x.type.shape, scales)
    for rounding, chosen in ((Rounding.FLOOR, scales >= 1), (Rounding.CEIL, scales < 1)):
        extents = zip(chosen, sizes, x.type.shape, strict=True)
        op = Resize(
            sizes=tuple(size if taken else extent for taken, size, extent in extents),
            scales=tuple(map(float, np.where(chosen, scales, 1))),
            mode=_interpolation(n),
            coordinates=Coordinates.ASYMMETRIC,
            rounding=rounding,
        )
        x = resample(n, x, op)
    return x


@onnx_op("Resize", since=11)
def resize(n: NodeContext) -> Value:
    """Sizes or scales of some axes or of all."""
    axes = _axes(n)
    sizes, scales = _sizes_and_scales(n, axes)
    coordinates = n.choice("coordinate_transformation_mode", _COORDINATES, "half_pixel")
    return resample(
        n,
        n[0],
        Resize(
            sizes=sizes,
            scales=scales,
            mode=_interpolation(n),
            coordinates=coordinates,
            rounding=n.choice("nearest_mode", _ROUNDING, "round_prefer_floor"),
            cubic=n.number("cubic_coeff_a", -0.75),
            exclude_outside=bool(n.integer("exclude_outside", 0)),
            antialias=bool(n.integer("antialias", 0)),
            region=_region(n, axes) if coordinates is Coordinates.CROP else (),
            extrapolation=n.number("extrapolation_value", 0.0),
        ),
    )


def _interpolation(n: NodeContext) -> Interpolation:
    return n.choice("mode", _INTERPOLATION, "nearest")


def _scaled(shape: tuple[int, ...], scales: Array) -> tuple[int, ...]:
    """Extents times scales, rounded down; in float32, as ONNX's shape inference does."""
    if not np.isfinite(_for_axes(scales, shape)).all():
        raise ModelError(f"scales must be finite, got {scales.tolist()}")
    with np.errstate(over="ignore"):
        extents = np.array([largest(n) for n in shape], np.float32) * scales.astype(np.float32)
    if not np.isfinite(extents).all():
        raise ModelError(f"extents {list(shape)} times scales {scales.tolist()} are too large")
    exact = (int(extent) for extent in np.floor(extents))
    pairs = zip(shape, scales.tolist(), exact, strict=True)
    return tuple(_multiple(n, scale) if is_ranged(n) else size for n, scale, size in pairs)


def _multiple(extent: int, scale: float) -> int:
    """An extent times a scale, rounded down."""
    ratio = Fraction(scale)
    if ratio.denominator > _MOST_DENOMINATOR:
        raise undecided(f"{extent} * {scale}, rounded to single precision,", extent)
    return extent * ratio.numerator // ratio.denominator


def _axes(n: NodeContext) -> list[int]:
    """The axes that the node names, in its order; all of them if it names none."""
    x = n[0].type
    return [normal_axis(axis, x) for axis in n.integers("axes", range(x.rank))]


def _known_floats(n: NodeContext, index: int) -> Array:
    """The value of an input that must hold floats."""
    if not n[index].type.dtype.is_float:
        raise ModelError(f"input {index} must hold floats, it is {n[index].type}")
    return n.known(index).reshape(-1)


def _for_axes(given: NumbersT, axes: Sequence[int]) -> NumbersT:
    """What is given for axes, which must be a number each."""
    if len(given) != len(axes):
        raise ModelError(f"{len(given)} numbers are given for {len(axes)} axes")
    return given


def _sizes_and_scales(n: NodeContext, axes: list[int]) -> tuple[tuple[int, ...], tuple[float, ...]]:
    shape = n[0].type.shape
    given = _known_floats(n, 2) if n.get(2) is not None else np.zeros(0, np.float32)
    if given.size:
        scales = np.ones(len(shape), np.float32)
        scales[axes] = _for_axes(given, axes)
        return _scaled(shape, scales), tuple(map(float, scales))
    sizes = [*shape]
    for axis, size in zip(axes, _for_axes(n.known_extents(3), axes), strict=True):
        sizes[axis] = size
    factors = [scale_of(size, extent) for size, extent in zip(sizes, shape, strict=True)]
    policy = n.text("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch" and axes:
        if any(map(is_ranged, (*sizes, *shape))):
            raise undecided(f"the scale to {tuple(sizes)}", *sizes, *shape)
        factor = (min if policy == "not_larger" else max)(factors[axis] for axis in axes)
        for axis in axes:
            factors[axis] = factor
            sizes[axis] = math.floor(factor * shape[axis] + 0.5)
    return tuple(sizes), tuple(factors)


def _region(n: NodeContext, axes: list[int]) -> tuple[float, ...]:
    """Starts, then ends, of every axis; whole where the node says nothing."""
    rank = n[0].type.rank
    region = np.repeat([0.0, 1.0], rank)
    places = [*axes, *(axis + rank for axis in axes)]
    region[places] = _for_axes(_known_floats(n, 1), places)
    return tuple(map(float, region))


@onnx_op("GridSample")
def grid_sample(n: NodeContext) -> Value:
    """Sample x at the positions of a grid; version 16 calls the modes bilinear and bicubic."""
    mode = n.choice("mode", _SAMPLING, "linear")
    border = n.choice("padding_mode", _BORDERS, "zeros")
    op = GridSample(mode, border, bool(n.integer("align_corners", 0)))
    return to_channels_first(n, n.emit(op, to_channels_last(n, n[0]), n[1]))


@onnx_op("AffineGrid")
def affine_grid(n: NodeContext) -> Value:
    """The standard's function is not used: it loses the batch where that is 1."""
    return affine_grid_of(n, n[0], _image_size(n), aligned=bool(n.integer("align_corners", 0)))


def _image_size(n: NodeContext) -> tuple[int, ...]:
    """Batch, channels, and two or three extents."""
    size = n.known_ints(1)
    if len(size) not in (4, 5) or min(size) < 1:
        raise ModelError(f"size must be [N, C, H, W] or [N, C, D, H, W], it is {list(size)}")
    return size


@onnx_op("Col2Im")
def col2im(n: NodeContext) -> Value:
    """Overlapping blocks, summed up."""
    kernel = n.known_ints(2)
    return image_of_columns(n, n[0], n.known_ints(1), given_windows(n, kernel))


@onnx_op("CenterCropPad")
def center_crop_pad(n: NodeContext) -> Value:
    """Cut or pad on both sides; an odd element more behind."""
    x, rank = n[0], n[0].type.rank
    wanted = [*x.type.shape]
    axes = _axes(n)
    for axis, extent in zip(axes, _for_axes(n.known_ints(1), axes), strict=True):
        wanted[axis] = extent
    kept = tuple(min(pair) for pair in zip(wanted, x.type.shape, strict=True))
    starts = tuple((old - new) // 2 for old, new in zip(x.type.shape, kept, strict=True))
    middle = n.emit(Slice(starts, kept, (1,) * rank), x)
    before = tuple((new - old) // 2 for new, old in zip(wanted, kept, strict=True))
    sides = zip(wanted, kept, before, strict=True)
    after = tuple(new - old - first for new, old, first in sides)
    return n.emit(Pad(before, after), middle)
