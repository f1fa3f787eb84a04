"""ONNX's ops that look for elements: extremes, running sums, and those that data decides."""

from __future__ import annotations

import numpy as np

from afterglow.frontends.common.data_lengths import (
    compress_by_data,
    may_have_data_lengths,
    non_zero_by_data,
)
from afterglow.frontends.common.movement import reshaped
from afterglow.frontends.definition.context import GrownTensor, NodeContext
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.ops.indexing import Gather
from afterglow.ops.reduction import CumProd, CumSum
from afterglow.ops.rules import normal_axis
from afterglow.ops.search import ArgMax, ArgMin, TopK


@onnx_op("ArgMax")
def arg_max(n: NodeContext) -> Value:
    """Where the largest is."""
    return n.emit(ArgMax(*_arg_attributes(n)), n[0])


@onnx_op("ArgMin")
def arg_min(n: NodeContext) -> Value:
    """Where the smallest is."""
    return n.emit(ArgMin(*_arg_attributes(n)), n[0])


def _arg_attributes(n: NodeContext) -> tuple[int, bool, bool]:
    axis = normal_axis(n.integer("axis", 0), n[0].type)
    return axis, bool(n.integer("keepdims", 1)), bool(n.integer("select_last_index", 0))


@onnx_op("TopK")
def top_k(n: NodeContext) -> tuple[Value, ...]:
    """The count was an attribute before version 10."""
    count = n.integer("k") if n.has("k") else n.known_int(1)
    axis = normal_axis(n.integer("axis", -1), n[0].type)
    largest, in_order = bool(n.integer("largest", 1)), bool(n.integer("sorted", 1))
    return n.emit_all(TopK(count, axis, largest, in_order), n[0])


@onnx_op("CumSum")
def cum_sum(n: NodeContext) -> Value:
    """Running sums."""
    return n.emit(CumSum(*_running_attributes(n)), n[0])


@onnx_op("CumProd")
def cum_prod(n: NodeContext) -> Value:
    """Running products."""
    return n.emit(CumProd(*_running_attributes(n)), n[0])


def _running_attributes(n: NodeContext) -> tuple[int, bool, bool]:
    axis = normal_axis(n.known_int(1), n[0].type)
    return axis, bool(n.integer("exclusive", 0)), bool(n.integer("reverse", 0))


@onnx_op("Compress")
def compress(n: NodeContext) -> Value | GrownTensor:
    """Slices where a condition holds; what of it lies beyond the axis counts for nothing."""
    x, axis = n[0], 0
    if n.has("axis"):
        axis = normal_axis(n.integer("axis"), x.type)
    else:
        x = reshaped(n, x, (x.type.size,))
    if may_have_data_lengths(n) and n.value_if_known(n[1]) is None:
        found = compress_by_data(n, x, axis, n[1])
        if found is not None:
            return found
    condition = n.known(1).reshape(-1)[: x.type.shape[axis]]
    return n.emit(Gather(axis), x, n.constant(np.flatnonzero(condition)))


@onnx_op("NonZero")
def non_zero(n: NodeContext) -> Value | GrownTensor:
    """The data decides how many there are: outside of loops they are found when importing."""
    if may_have_data_lengths(n) and n.value_if_known(n[0]) is None:
        found = non_zero_by_data(n, n[0])
        if found is not None:
            return found
    return n.constant(np.array(np.nonzero(np.atleast_1d(n.known(0))), np.int64))


@onnx_op("Unique")
def unique(n: NodeContext) -> tuple[Value, ...]:
    """The data decides how many there are, so they are found when importing."""
    x = n.known(0)
    axis = normal_axis(n.integer("axis"), n[0].type) if n.has("axis") else None
    if axis is None:
        x, axis = x.reshape(-1), 0
    _, first, inverse, counts = np.unique(
        x,
        return_index=True,
        return_inverse=True,
        return_counts=True,
        axis=None if x.ndim == 1 else axis,
    )
    inverse = inverse.reshape(-1)
    if not n.integer("sorted", 1):
        order = np.argsort(first)
        first, counts = first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    found = (x.take(first, axis), *(a.astype(np.int64) for a in (first, inverse, counts)))
    return tuple(n.constant(array) for array in found)
