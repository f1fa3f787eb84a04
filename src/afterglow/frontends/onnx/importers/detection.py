"""ONNX's ops of object detection: regions of interest, and choosing among boxes."""

from __future__ import annotations

import numpy as np

from afterglow.frontends.common.boxes import choose_boxes
from afterglow.frontends.common.layout import to_channels_first, to_channels_last
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.ops.conversion import Cast
from afterglow.ops.regions import MaxRoiPool, RegionMode, RoiAlign
from afterglow.support.errors import ModelError
from afterglow.types import Array
from afterglow.types.dtype import i64

MOST_SAMPLES = 2**10
"""Samples along each side of a cell of a region, at most: their square is what it takes."""


@onnx_op("RoiAlign")
def roi_align(n: NodeContext) -> Value:
    """Before version 16 there was no shift by half a pixel."""
    shift = "half_pixel" if n.opset >= 16 else "output_half_pixel"
    samples = n.integer("sampling_ratio", 0)
    if samples > MOST_SAMPLES:
        raise n.fail(f"sampling_ratio is {samples:,}, the limit is {MOST_SAMPLES:,}")
    op = RoiAlign(
        cells=(n.integer("output_height", 1), n.integer("output_width", 1)),
        samples=samples,
        scale=n.number("spatial_scale", 1.0),
        mode=RegionMode.MAX if n.text("mode", "avg") == "max" else RegionMode.MEAN,
        half_pixel=n.text("coordinate_transformation_mode", shift) == "half_pixel",
    )
    images = n.emit(Cast(i64), n[2])
    return to_channels_first(n, n.emit(op, to_channels_last(n, n[0]), n[1], images))


@onnx_op("MaxRoiPool")
def max_roi_pool(n: NodeContext) -> Value:
    """The image's number is the first column of a region."""
    rows, columns = n.counted("pooled_shape", 2)
    op = MaxRoiPool((rows, columns), n.number("spatial_scale", 1.0))
    return to_channels_first(n, n.emit(op, to_channels_last(n, n[0]), n[1]))


@onnx_op("NonMaxSuppression")
def non_max_suppression(n: NodeContext) -> Value:
    """How many boxes are chosen depends on the boxes, so they must be known."""
    if not (n[0].type.dtype.is_float and n[1].type.dtype.is_float):
        raise ModelError(f"boxes and scores must be floats, got {n[0].type} and {n[1].type}")
    boxes, scores = n.known(0), n.known(1)
    fits = boxes.ndim == scores.ndim == 3 and boxes.shape[2] == 4
    if not (fits and boxes.shape[:2] == (scores.shape[0], scores.shape[2])):
        raise ModelError(f"boxes {n[0].type} and scores {n[1].type} do not belong together")
    most, overlap, least = (
        n.known_number(index) if n.get(index) is not None else default
        for index, default in ((2, 0), (3, 0.0), (4, -np.inf))
    )
    corners = _corners(boxes, bool(n.integer("center_point_box", 0)))
    chosen = [
        (image, kind, box)
        for image, kind in np.ndindex(*scores.shape[:2])
        for box in choose_boxes(corners[image], scores[image, kind], int(most), overlap, least)
    ]
    return n.constant(np.array(chosen, np.int64).reshape(-1, 3))


def _corners(boxes: Array, centred: bool) -> Array:
    """Boxes as (least corner, largest corner), from a centre and extents or from any two."""
    first, second = boxes[..., :2], boxes[..., 2:]
    if centred:
        first, second = first - second / 2, first + second / 2
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], axis=-1)
