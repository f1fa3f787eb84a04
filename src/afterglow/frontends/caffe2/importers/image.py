"""Caffe2's operators on images."""

from __future__ import annotations

from afterglow.frontends.caffe2.importers.windows import given_pads
from afterglow.frontends.caffe2.registry import Caffe2Node, caffe2_op
from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.images import resample
from afterglow.frontends.common.layout import to_channels_first, to_channels_last
from afterglow.graph import Value
from afterglow.ops.elementwise import scalar
from afterglow.ops.fill import Fill
from afterglow.ops.image import Coordinates, Interpolation, Resize, Rounding
from afterglow.ops.movement import Pad, PadMode, Reshape, slice_axis
from afterglow.ops.regions import RegionMode, RoiAlign
from afterglow.support.errors import ModelError
from afterglow.types import dtype as d

_MODES = {"constant": PadMode.CONSTANT, "reflect": PadMode.REFLECT, "edge": PadMode.EDGE}
_MOST_SCALE = 1 << 16


@caffe2_op("PadImage")
def pad_image(n: Caffe2Node) -> Value:
    """Images padded with a number, or with copies of their own elements."""
    x = n[0]
    top, left, bottom, right = given_pads(n, len(n.spatial(x))) if x.type.rank == 4 else (0,) * 4
    before, after = ((0, 0, top, left), (0, 0, bottom, right))
    if n.is_nhwc:
        before, after = (0, top, left, 0), (0, bottom, right, 0)
    if x.type.rank != 4 or min(*before, *after) < 0:
        raise ModelError(f"it cannot pad x: {x.type} by {before} and {after}")
    mode = n.choice("mode", _MODES, "constant")
    value = scalar(n.builder, n.number("value", 0.0), x) if mode is PadMode.CONSTANT else None
    return n.emit(Pad(before, after, mode), x, value)


@caffe2_op("ResizeNearest")
def resize_nearest(n: Caffe2Node) -> Value:
    """The nearest element before."""
    return _resized(n, Interpolation.NEAREST, Coordinates.ASYMMETRIC)


@caffe2_op("UpsampleBilinear")
def upsample_bilinear(n: Caffe2Node) -> Value:
    """Interpolated, with corners on corners."""
    return _resized(n, Interpolation.LINEAR, Coordinates.ALIGN_CORNERS)


def _resized(n: Caffe2Node, mode: Interpolation, coordinates: Coordinates) -> Value:
    x = n[0]
    factors = _factors(n)
    first = to_channels_first(n, x) if n.is_nhwc else x
    n.extents(first, 4)
    *kept, height, width = first.type.shape
    sizes = (*kept, int(height * factors[0]), int(width * factors[1]))
    op = Resize(
        sizes=sizes,
        scales=(1.0, 1.0, *factors),
        mode=mode,
        coordinates=coordinates,
        rounding=Rounding.FLOOR,
    )
    result = resample(n, first, op)
    return to_channels_last(n, result) if n.is_nhwc else result


def _factors(n: Caffe2Node) -> tuple[float, float]:
    """How much height and width grow; a second operand has both."""
    if len(n) > 1:
        given = [float(f) for f in n.known(1).reshape(-1).tolist()]
        factors = (given[0], given[1]) if len(given) == 2 else (0.0, 0.0)
    else:
        factors = n.number("height_scale", 1.0), n.number("width_scale", 1.0)
    if not all(0 < factor < _MOST_SCALE for factor in factors):
        raise ModelError(f"images cannot be scaled by {factors}")
    return factors


@caffe2_op("RoIAlign")
def roi_align(n: Caffe2Node) -> Value:
    """Regions with the index of their image in front, if there are five columns."""
    x, regions = n[0], n[1]
    count, columns = n.extents(regions, 2)
    if columns not in (4, 5):
        raise ModelError(f"regions must have 4 or 5 columns, they are {regions.type}")
    if columns == 5:
        first = n.emit(Reshape((count,)), n.emit(slice_axis(regions.type, 1, 0, 1), regions))
        images = as_dtype(n, first, d.i64)
        regions = n.emit(slice_axis(regions.type, 1, 1, 4), regions)
    else:
        images = n.emit(Fill((count,), 0.0, d.i64))
    op = RoiAlign(
        (n.integer("pooled_h", 1), n.integer("pooled_w", 1)),
        max(0, n.integer("sampling_ratio", -1)),
        n.number("spatial_scale", 1.0),
        RegionMode.MEAN,
        n.flag("aligned"),
    )
    return n.result(n.emit(op, n.image(x), regions, images))
