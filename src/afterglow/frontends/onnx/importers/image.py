"""ONNX's image ops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeVar

import numpy as np

from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.definition.limits import check_resampled
from afterglow.frontends.onnx.importers.layout import to_channels_first, to_channels_last
from afterglow.frontends.onnx.importers.windows import given_windows
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.ops.conversion import Cast
from afterglow.ops.convolution import ConvTranspose
from afterglow.ops.elementwise import Add, Mul, scalar
from afterglow.ops.grid_sample import GridSample
from afterglow.ops.image import Coordinates, Interpolation, Resize, Rounding
from afterglow.ops.indexing import Iota
from afterglow.ops.movement import Pad, Reshape, Slice, Tile, slice_axis
from afterglow.ops.rules import normal_axis
from afterglow.ops.sampling import Border
from afterglow.support.errors import ModelError
from afterglow.types import Array
from afterglow.types.dtype import i64
from afterglow.types.extent import is_ranged, largest, smallest, undecided

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
_TAPS = {Interpolation.NEAREST: 1, Interpolation.LINEAR: 2, Interpolation.CUBIC: 4}
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
        x = _resample(n, x, op)
    return x


@onnx_op("Resize", since=11)
def resize(n: NodeContext) -> Value:
    """Sizes or scales of some axes or of all."""
    axes = _axes(n)
    sizes, scales = _sizes_and_scales(n, axes)
    coordinates = n.choice("coordinate_transformation_mode", _COORDINATES, "half_pixel")
    return _resample(
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


def _resample(n: NodeContext, x: Value, op: Resize) -> Value:
    """Channels last where batch and channels stay as they are."""
    rank, axes = x.type.rank, op.resized_axes(x.type.shape)
    if not axes:
        return x
    for axis in axes:
        check_resampled(op.sizes[axis] * _TAPS[op.mode])
    if rank < 3 or min(axes) < 2:
        return n.emit(op, x)
    last = op.permuted((0, *range(2, rank), 1))
    return to_channels_first(n, n.emit(last, to_channels_last(n, x)))


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


def _scale(size: int, extent: int) -> float:
    """How much an axis is scaled; 0, for what it is in a run, if that depends on extents."""
    if not is_ranged(size) and not is_ranged(extent):
        return size / extent if extent else 1.0
    for larger, smaller, power in ((size, extent, 1), (extent, size, -1)):
        times = larger // smaller if smallest(smaller) > 0 else smaller
        if not is_ranged(times) and smaller * times == larger:
            return float(times) ** power
    return 0.0


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
    factors = [_scale(size, extent) for size, extent in zip(sizes, shape, strict=True)]
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
    """Where theta [N, axes, axes + 1] takes each place of an image: [N, spatial…, axes].

    The standard's function is not used: it loses the batch where that is 1.
    """
    theta, (batch, _, *spatial) = n[0], _image_size(n)
    axes = len(spatial)
    if theta.type.shape != (batch, axes, axes + 1):
        raise ModelError(f"theta must be [{batch}, {axes}, {axes + 1}], it is {theta.type}")
    result = _column(n, theta, axes)
    for axis, extent in enumerate(spatial):
        places = n.emit(Reshape((extent, *[1] * (axes - axis))), _places(n, extent))
        factor = _column(n, theta, axes - 1 - axis)
        result = n.emit(Add(), n.emit(Mul(), factor, places), result)
    return result


def _image_size(n: NodeContext) -> tuple[int, ...]:
    """Batch, channels, and two or three extents."""
    size = n.known_ints(1)
    if len(size) not in (4, 5) or min(size) < 1:
        raise ModelError(f"size must be [N, C, H, W] or [N, C, D, H, W], it is {list(size)}")
    return size


def _column(n: NodeContext, theta: Value, index: int) -> Value:
    """A column of each matrix, as [N, 1…, axes]."""
    batch, axes, _ = theta.type.shape
    column = n.emit(slice_axis(theta.type, 2, index, 1), theta)
    return n.emit(Reshape((batch, *[1] * axes, axes)), column)


def _places(n: NodeContext, extent: int) -> Value:
    """Coordinates from -1 to 1 of pixels along an axis: of their centres, or of all there are."""
    dtype = n[0].type.dtype
    aligned = bool(n.integer("align_corners", 0))
    step = 2 / max(1, extent - 1) if aligned else 2 / extent
    start = -1.0 if aligned else step / 2 - 1
    places = n.emit(Cast(dtype), n.emit(Iota((extent,), 0, i64)))
    scaled = n.emit(Mul(), places, scalar(n.builder, step, places))
    return n.emit(Add(), scaled, scalar(n.builder, start, places))


@onnx_op("Col2Im")
def col2im(n: NodeContext) -> Value:
    """A transposed convolution: each kernel place of the columns goes to its own tap."""
    x, image, kernel = n[0], n.known_ints(1), n.known_ints(2)
    w = given_windows(n, kernel)
    places = math.prod(kernel)
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
