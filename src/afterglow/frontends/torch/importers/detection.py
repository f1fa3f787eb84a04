"""Ops of torchvision: regions of interest, and choosing among boxes."""

from __future__ import annotations

import numpy as np

from afterglow.frontends.common.boxes import choose_boxes
from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.layout import to_channels_first, to_channels_last
from afterglow.frontends.torch.node import TorchNode
from afterglow.frontends.torch.registry import aten
from afterglow.graph import Value
from afterglow.ops.deform_conv import DeformConv
from afterglow.ops.movement import Reshape, slice_axis
from afterglow.ops.regions import MaxRoiPool, RegionMode, RoiAlign
from afterglow.support.errors import ModelError
from afterglow.types.dtype import i64

_VISION = "torchvision"


@aten("nms.default", namespace=_VISION)
def nms(n: TorchNode) -> Value:
    """How many boxes are chosen depends on the boxes, so they must be known."""
    boxes, scores = n.value_of(n.value("dets")), n.value_of(n.value("scores"))
    if boxes.ndim != 2 or boxes.shape[1] != 4 or scores.shape != boxes.shape[:1]:
        raise ModelError(f"boxes {boxes.shape} and scores {scores.shape} do not belong together")
    overlap = float(n.scalar("iou_threshold"))
    chosen = list(choose_boxes(boxes, scores, len(boxes), overlap, -np.inf))
    return n.constant(np.array(chosen, np.int64))


@aten("roi_align.default", namespace=_VISION)
def roi_align(n: TorchNode) -> Value:
    """A region's first column is the number of its image."""
    x, rois = n.value("input"), n.value("rois")
    n.extents(rois, 2)
    samples = n.size("sampling_ratio")
    op = RoiAlign(
        cells=(n.size("pooled_height"), n.size("pooled_width")),
        samples=max(0, samples),
        scale=float(n.scalar("spatial_scale")),
        mode=RegionMode.MEAN,
        half_pixel=n.flag("aligned"),
    )
    images = n.emit(slice_axis(rois.type, 1, 0, 1), rois)
    images = as_dtype(n, n.emit(Reshape(images.type.shape[:1]), images), i64)
    regions = n.emit(slice_axis(rois.type, 1, 1, 4), rois)
    return to_channels_first(n, n.emit(op, to_channels_last(n, x), regions, images))


@aten("roi_pool.default", namespace=_VISION)
def roi_pool(n: TorchNode) -> tuple[Value, None]:
    """Without the places of the maxima, which gradients read."""
    if n.is_read(1):
        raise n.fail("the places of the maxima of regions are not supported")
    cells = (n.size("pooled_height"), n.size("pooled_width"))
    op = MaxRoiPool(cells, float(n.scalar("spatial_scale")))
    x = to_channels_last(n, n.value("input"))
    return to_channels_first(n, n.emit(op, x, n.value("rois"))), None


@aten("deform_conv2d.default", namespace=_VISION)
def deform_conv(n: TorchNode) -> Value:
    """Offsets and mask are images too."""
    strides, pads, dilations = (
        (n.size(f"{name}_h"), n.size(f"{name}_w")) for name in ("stride", "pad", "dilation")
    )
    op = DeformConv(strides, pads * 2, dilations, n.size("groups"), n.size("offset_groups"))
    x, weight, offset = (to_channels_last(n, n.value(v)) for v in ("input", "weight", "offset"))
    mask = to_channels_last(n, n.value("mask")) if n.flag("use_mask") else None
    return to_channels_first(n, n.emit(op, x, weight, offset, n.optional("bias"), mask))
