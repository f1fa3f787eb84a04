"""Caffe2's pooling."""

from __future__ import annotations

from afterglow.frontends.caffe2.importers.windows import read_windows, sizes
from afterglow.frontends.caffe2.registry import Caffe2Node, caffe2_op
from afterglow.graph import Value
from afterglow.ops.pooling import AvgPool, MaxPool
from afterglow.ops.reduction import ReduceMax, ReduceMean
from afterglow.ops.windows import Windows


def _windows(n: Caffe2Node) -> Windows | None:
    """The windows of a pooling; None if one window is the whole image."""
    if n.flag("global_pooling"):
        return None
    extents = n.spatial(n[0])
    return read_windows(n, sizes(n, "kernel", len(extents), None), extents)


def _spatial_axes(n: Caffe2Node) -> tuple[int, ...]:
    first = 1 if n.is_nhwc else 2
    return tuple(range(first, first + len(n.spatial(n[0]))))


@caffe2_op("MaxPool", "MaxPool1D", "MaxPool2D", "MaxPool3D")
def max_pool(n: Caffe2Node) -> Value:
    """The largest element of each window."""
    w = _windows(n)
    if w is None:
        return n.emit(ReduceMax(_spatial_axes(n)), n[0])
    op = MaxPool(w.kernel, w.strides, w.pads, w.dilations)
    return n.result(n.emit(op, n.image(n[0])))


@caffe2_op("AveragePool", "AveragePool1D", "AveragePool2D", "AveragePool3D")
def average_pool(n: Caffe2Node) -> Value:
    """The mean of each window; padding counts only if the operator says so."""
    w = _windows(n)
    if w is None:
        return n.emit(ReduceMean(_spatial_axes(n)), n[0])
    counted = n.flag("count_include_pad")
    op = AvgPool(w.kernel, w.strides, w.pads, w.dilations, False, counted)
    return n.result(n.emit(op, n.image(n[0])))
