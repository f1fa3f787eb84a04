"""ATen's resampling of images, whose channels are axis 1."""

from __future__ import annotations

import math
from collections.abc import Sequence

from afterglow.frontends.common.images import affine_grid_of, image_of_columns, resample, scale_of
from afterglow.frontends.common.layout import to_channels_first, to_channels_last
from afterglow.frontends.torch.node import TorchNode
from afterglow.frontends.torch.registry import aten
from afterglow.graph import Value
from afterglow.ops.grid_sample import GridSample
from afterglow.ops.image import Coordinates, Interpolation, Resize, Rounding
from afterglow.ops.movement import Concat, Pad, Reshape, Slice
from afterglow.ops.sampling import Border
from afterglow.ops.windows import Windows
from afterglow.support.errors import ModelError, UnsupportedError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.extent import is_ranged


@dataclass(frozen=True)
class _Kind:
    """How a family of ops resamples."""

    mode: Interpolation
    coordinates: Coordinates = Coordinates.HALF_PIXEL
    antialias: bool = False
    cubic: float = -0.75


_NEAREST = _Kind(Interpolation.NEAREST, Coordinates.ASYMMETRIC)
_EXACT = _Kind(Interpolation.NEAREST, Coordinates.HALF_PIXEL_UNSHIFTED)
_LINEAR, _CUBIC = _Kind(Interpolation.LINEAR), _Kind(Interpolation.CUBIC)
_KINDS = {
    **{f"upsample_nearest{axes}d": _NEAREST for axes in (1, 2, 3)},
    **{f"_upsample_nearest_exact{axes}d": _EXACT for axes in (1, 2, 3)},
    "upsample_linear1d": _LINEAR,
    "upsample_bilinear2d": _LINEAR,
    "upsample_trilinear3d": _LINEAR,
    "upsample_bicubic2d": _CUBIC,
    "_upsample_bilinear2d_aa": _Kind(Interpolation.LINEAR, antialias=True),
    "_upsample_bicubic2d_aa": _Kind(Interpolation.CUBIC, antialias=True, cubic=-0.5),
}
_MODES = (Interpolation.LINEAR, Interpolation.NEAREST, Interpolation.CUBIC)
_BORDERS = (Border.ZEROS, Border.EDGE, Border.REFLECT)


@aten(*(f"{name}.{overload}" for name in _KINDS for overload in ("default", "vec")))
def upsample(n: TorchNode) -> Value:
    """To given extents, or by given factors."""
    x = n.value("input" if n.has("input") else "self")
    kind = _KINDS[n.proto.op_type.partition(".")[0]]
    sizes, scales = _sizes_and_scales(n, x)
    coordinates = kind.coordinates
    if n.flag("align_corners"):
        if kind.antialias:
            raise UnsupportedError(
                "antialiasing with align_corners is not supported", help="pass align_corners=False"
            )
        coordinates = Coordinates.ALIGN_CORNERS
        scales = _scales(x, sizes)
    op = Resize(
        sizes=(*x.type.shape[:2], *sizes),
        scales=(1.0, 1.0, *scales),
        mode=kind.mode,
        coordinates=coordinates,
        rounding=Rounding.FLOOR,
        cubic=kind.cubic,
        exclude_outside=kind.antialias,
        antialias=kind.antialias,
    )
    return resample(n, x, op)


def _scales(x: Value, sizes: Sequence[int]) -> list[float]:
    return [scale_of(size, extent) for size, extent in zip(sizes, x.type.shape[2:], strict=True)]


def _sizes_and_scales(n: TorchNode, x: Value) -> tuple[tuple[int, ...], list[float]]:
    """The spatial extents of the result, and the factors: as given, or by the extents."""
    factors = _factors(n, x.type.rank - 2)
    if n.argument("output_size") not in (None, ()):
        sizes = n.sizes("output_size")
    elif all(factor is not None for factor in factors):
        sizes = tuple(
            _scaled(extent, factor or 1.0)
            for extent, factor in zip(x.type.shape[2:], factors, strict=True)
        )
    else:
        raise ModelError("neither extents nor factors are given")
    scales = _scales(x, sizes)
    pairs = zip(factors, scales, strict=True)
    return sizes, [given if given else found for given, found in pairs]


def _factors(n: TorchNode, axes: int) -> list[float | None]:
    if n.has("scale_factors"):
        return [float(factor) for factor in n.argument("scale_factors")]
    names = ("scales",) if axes == 1 else ("scales_d", "scales_h", "scales_w")[-axes:]
    given = (n.argument(name) for name in names)
    return [None if factor is None else float(factor) for factor in given]


def _scaled(extent: int, factor: float) -> int:
    if is_ranged(extent) and factor == int(factor):
        return extent * int(factor)
    return math.floor(extent * factor)


@aten("grid_sampler.default", "grid_sampler_2d.default", "grid_sampler_3d.default")
def grid_sampler(n: TorchNode) -> Value:
    """Modes and borders are numbers."""
    mode, border = n.size("interpolation_mode"), n.size("padding_mode")
    if mode not in range(3) or border not in range(3):
        raise ModelError(f"there is no interpolation {mode} or no border {border}")
    op = GridSample(_MODES[mode], _BORDERS[border], n.flag("align_corners"))
    x = to_channels_last(n, n.value("input"))
    return to_channels_first(n, n.emit(op, x, n.value("grid")))


@aten("affine_grid_generator.default")
def affine_grid(n: TorchNode) -> Value:
    """Where a matrix takes each place of an image."""
    aligned = n.flag("align_corners")
    return affine_grid_of(n, n.value("theta"), n.sizes("size"), aligned=aligned, alone=0.0)


def _block_windows(n: TorchNode) -> Windows:
    kernel, dilation, padding, stride = (
        _pair(n, name) for name in ("kernel_size", "dilation", "padding", "stride")
    )
    return Windows(kernel, stride, padding * 2, dilation)


def _pair(n: TorchNode, name: str) -> tuple[int, ...]:
    given = n.sizes(name)
    return given * 2 if len(given) == 1 else given


@aten("col2im.default")
def col2im(n: TorchNode) -> Value:
    """Overlapping blocks, summed up."""
    x = n.value("self")
    alone = x.type.rank == 2
    if alone:
        x = n.emit(Reshape((1, *x.type.shape)), x)
    y = image_of_columns(n, x, _pair(n, "output_size"), _block_windows(n))
    return n.emit(Reshape(y.type.shape[1:]), y) if alone else y


@aten("im2col.default")
def im2col(n: TorchNode) -> Value:
    """Overlapping blocks as columns: a strided slice for each place of a block."""
    x, w = n.value("self"), _block_windows(n)
    lead, spatial = x.type.shape[:-3], x.type.shape[-2:]
    channels = x.type.shape[-3]
    counts = w.counts(spatial)
    before, after = ((0,) * (x.type.rank - 2) + pads for pads in (w.begins, w.ends))
    padded = n.emit(Pad(before, after), x)
    places = [(row, column) for row in range(w.kernel[0]) for column in range(w.kernel[1])]
    taps = [_tap(n, padded, place, counts, w) for place in places]
    stacked = n.emit(Concat(len(lead) + 1), *taps)
    return n.emit(Reshape((*lead, channels * len(places), math.prod(counts))), stacked)


def _tap(
    n: TorchNode, x: Value, place: tuple[int, int], counts: tuple[int, ...], w: Windows
) -> Value:
    """What one place of all blocks holds: [batch, channels, 1, blocks]."""
    lead = x.type.shape[:-2]
    starts = tuple(at * step for at, step in zip(place, w.dilations, strict=True))
    none = (0,) * len(lead)
    op = Slice((*none, *starts), (*lead, *counts), (*(1 for _ in lead), *w.strides))
    return n.emit(Reshape((*lead, 1, math.prod(counts))), n.emit(op, x))
