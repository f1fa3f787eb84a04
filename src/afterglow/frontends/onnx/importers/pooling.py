"""ONNX's pooling."""

from __future__ import annotations

import math

from afterglow.frontends.common.layout import to_channels_first, to_channels_last
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.importers.windows import read_windows
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.ops.elementwise import Abs, Add, Div, Mod, Mul, scalar
from afterglow.ops.indexing import multiples
from afterglow.ops.movement import Expand, Pad, Reshape
from afterglow.ops.pooling import AvgPool, LpPool, MaxPool, MaxPoolWithIndices
from afterglow.ops.power import Pow
from afterglow.ops.reduction import ReduceMax, ReduceMean, ReduceSum
from afterglow.ops.scatter import ScatterElements
from afterglow.ops.windows import Windows


def _windows(n: NodeContext) -> Windows:
    return read_windows(n, n.integers("kernel_shape"), n[0].type.shape[2:])


@onnx_op("MaxPool")
def max_pool(n: NodeContext) -> Value | tuple[Value, Value]:
    """With indices only where the node names them."""
    w = _windows(n)
    x = to_channels_last(n, n[0])
    if not n.wants(1):
        op = MaxPool(w.kernel, w.strides, w.pads, w.dilations, w.ceil_mode)
        return to_channels_first(n, n.emit(op, x))
    indexed = MaxPoolWithIndices(w.kernel, w.strides, w.pads, w.dilations, w.ceil_mode)
    values, places = n.emit_all(indexed, x)
    places = to_channels_first(n, places)
    if n.integer("storage_order", 0) == 1:
        places = _column_major(n, places, n[0].type.shape[2:])
    return to_channels_first(n, values), _across_images(n, places)


def _across_images(n: NodeContext, places: Value) -> Value:
    """ONNX counts through the whole tensor [N, C, spatial…], ours starts anew in each channel."""
    shape = n[0].type.shape
    size = math.prod(shape[2:])
    starts = multiples(n.builder, (*shape[:2], *(1 for _ in shape[2:])), size, "starts")
    return n.emit(Add(), places, starts)


def _column_major(n: NodeContext, places: Value, extents: tuple[int, ...]) -> Value:
    """The same positions, counted with the first spatial axis changing fastest."""
    result = scalar(n.builder, 0, places)
    for extent in reversed(extents):
        size = scalar(n.builder, extent, places)
        here = n.emit(Mod(), places, size)
        places = n.emit(Div(), places, size)
        result = n.emit(Add(), n.emit(Mul(), result, size), here)
    return result


@onnx_op("AveragePool")
def average_pool(n: NodeContext) -> Value:
    """Padding counts only if the node says so."""
    w = _windows(n)
    counted = bool(n.integer("count_include_pad", 0))
    op = AvgPool(w.kernel, w.strides, w.pads, w.dilations, w.ceil_mode, counted)
    return to_channels_first(n, n.emit(op, to_channels_last(n, n[0])))


@onnx_op("LpPool")
def lp_pool(n: NodeContext) -> Value:
    """A norm of each window."""
    w = _windows(n)
    op = LpPool(w.kernel, w.strides, w.pads, w.dilations, w.ceil_mode, _norm_of(n))
    return to_channels_first(n, n.emit(op, to_channels_last(n, n[0])))


def _norm_of(n: NodeContext) -> int:
    """The attribute p, which version 1 has as a float."""
    p = n.number("p", 2)
    if not math.isfinite(p):
        raise n.fail(f"there is no norm of degree {p}")
    return int(p)


def _spatial_axes(x: Value) -> tuple[int, ...]:
    return tuple(range(2, x.type.rank))


@onnx_op("GlobalAveragePool")
def global_average_pool(n: NodeContext) -> Value:
    """A mean over the spatial axes."""
    return n.emit(ReduceMean(_spatial_axes(n[0])), n[0])


@onnx_op("GlobalMaxPool")
def global_max_pool(n: NodeContext) -> Value:
    """A maximum over the spatial axes."""
    return n.emit(ReduceMax(_spatial_axes(n[0])), n[0])


@onnx_op("GlobalLpPool")
def global_lp_pool(n: NodeContext) -> Value:
    """A norm over the spatial axes."""
    x, p = n[0], n.number("p", 2)
    if not 0 < p < math.inf:
        raise n.fail(f"there is no norm of degree {p:g}")
    power = n.emit(Pow(), n.emit(Abs(), x), scalar(n.builder, p, x))
    total = n.emit(ReduceSum(_spatial_axes(x)), power)
    return n.emit(Pow(), total, scalar(n.builder, 1 / p, x))


@onnx_op("MaxUnpool")
def max_unpool(n: NodeContext) -> Value:
    """Zeros, with each element put where its index says.

    Indices count through the tensor that was pooled; a larger result has it at its start.
    """
    x, w = n[0], _windows(n)
    n.extents(x, len(w.kernel) + 2)
    extents = (
        (extent - 1) * stride - begin - end + kernel
        for extent, stride, begin, end, kernel in zip(
            x.type.shape[2:], w.strides, w.begins, w.ends, w.kernel, strict=True
        )
    )
    shape = (*x.type.shape[:2], *extents)
    zeros = n.emit(Expand((math.prod(shape),)), scalar(n.builder, 0, x))
    flat = Reshape((x.type.size,))
    filled = n.emit(ScatterElements(0), zeros, n.emit(flat, n[1]), n.emit(flat, x))
    result = n.emit(Reshape(shape), filled)
    wanted = n.known_ints(2) if n.get(2) is not None else shape
    if wanted == shape:
        return result
    if len(wanted) != len(shape):
        raise n.fail(f"{len(wanted)} extents are given for the {len(shape)} axes of the result")
    more = tuple(want - extent for want, extent in zip(wanted, shape, strict=True))
    return n.emit(Pad((0,) * len(shape), more), result)
