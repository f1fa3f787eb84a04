"""Images of other extents."""

from __future__ import annotations

import numpy as np

from afterglow.exporters.onnx.layouts import Layout, channels_first
from afterglow.exporters.onnx.node import NodeWriter
from afterglow.exporters.onnx.registry import exports
from afterglow.graph import Node
from afterglow.ops.image import Coordinates, Resize, Rounding
from afterglow.types.extent import is_ranged

_COORDINATES = {
    Coordinates.HALF_PIXEL: "half_pixel",
    Coordinates.HALF_PIXEL_SYMMETRIC: "half_pixel_symmetric",
    Coordinates.HALF_PIXEL_OR_START: "pytorch_half_pixel",
    Coordinates.ALIGN_CORNERS: "align_corners",
    Coordinates.ASYMMETRIC: "asymmetric",
    Coordinates.CROP: "tf_crop_and_resize",
}
"""ONNX's words: those of the newest opset, in which half_pixel_unshifted is not."""
_ROUNDING = {
    Rounding.HALF_DOWN: "round_prefer_floor",
    Rounding.HALF_UP: "round_prefer_ceil",
    Rounding.FLOOR: "floor",
    Rounding.CEIL: "ceil",
}


def _images(node: Node) -> Layout | None:
    """Channels second where there are any, and they stay as they are."""
    op, shape = node.op, node.given[0].type.shape
    assert isinstance(op, Resize)
    axes = op.resized_axes(shape)
    keeps = len(shape) > 2 and 0 not in axes and len(shape) - 1 not in axes
    return channels_first(len(shape)) if keeps else None


def _is_known(node: Node) -> bool:
    return isinstance(node.op, Resize) and node.op.coordinates in _COORDINATES


@exports(Resize, layout=_images, accepts=_is_known)
def resize(n: NodeWriter) -> str:
    """By the scales, where they give the extents of the result; else by those extents."""
    op: Resize = n.op
    layout = n.layout or tuple(range(n.type(0).rank))
    shape = [n.type(0).shape[axis] for axis in layout]
    region = n.constant(np.array(op.region, np.float32)) if op.region else ""
    scaled = all(_gives(*axis) for axis in zip(shape, op.scales, op.sizes, strict=True))
    scales = n.constant(np.array(op.scales, np.float32)) if scaled else ""
    sizes = "" if scaled else n.integers(*op.sizes)
    return n.emit(
        "Resize",
        *(n.operand(0), region, scales, sizes),
        mode=op.mode.value,
        coordinate_transformation_mode=_COORDINATES[op.coordinates],
        nearest_mode=_ROUNDING[op.rounding],
        cubic_coeff_a=op.cubic,
        exclude_outside=int(op.exclude_outside),
        antialias=int(op.antialias),
        extrapolation_value=op.extrapolation,
    )


def _gives(extent: int, scale: float, size: int) -> bool:
    if is_ranged(extent):
        return scale > 0 and scale == int(scale) and extent * int(scale) == size
    return int(np.floor(np.float32(extent) * np.float32(scale))) == size
