"""ATen's pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence

from afterglow.frontends.common.layout import to_channels_first, to_channels_last
from afterglow.frontends.torch.node import TorchNode
from afterglow.frontends.torch.registry import aten
from afterglow.graph import Value
from afterglow.ops.elementwise import Mul, scalar
from afterglow.ops.indexing import GatherElements, multiples
from afterglow.ops.movement import Concat, Expand, Pad, Reshape, slice_axis
from afterglow.ops.pooling import AvgPool, MaxPool, MaxPoolWithIndices
from afterglow.ops.reduction import ReduceMax, ReduceMean
from afterglow.ops.scatter import ScatterElements
from afterglow.ops.search import ArgMax
from afterglow.ops.windows import Windows
from afterglow.support.errors import ModelError

Results = Sequence[Value | None]


def _named(*bases: str, ranks: str = "123", overload: str = "default") -> list[str]:
    return [f"{base.format(rank)}.{overload}" for base in bases for rank in ranks]


def _axes(n: TorchNode) -> int:
    """How many axes are spatial: the digit before the d of the op's name."""
    return int(n.proto.op_type.partition("pool")[2][0])


def _batched(n: TorchNode, x: Value, axes: int) -> Value:
    """[N, C, spatial…], where the batch may be missing."""
    if x.type.rank not in (axes + 1, axes + 2):
        raise ModelError(f"'self' must have {axes + 1} or {axes + 2} axes, it is {x.type}")
    return x if x.type.rank == axes + 2 else n.emit(Reshape((1, *x.type.shape)), x)


def _like_given(n: TorchNode, y: Value, x: Value) -> Value:
    """Without the batch, if x has none."""
    return y if y.type.rank == x.type.rank else n.emit(Reshape(y.type.shape[1:]), y)


def _numbers(n: TorchNode, name: str, axes: int) -> tuple[int, ...]:
    """A number for each spatial axis; one number holds for all, and none is none."""
    given = n.sizes(name) if n.argument(name) not in (None, ()) else ()
    return given * axes if len(given) == 1 else given


def _windows(n: TorchNode, axes: int) -> Windows:
    kernel = _numbers(n, "kernel_size", axes)
    pads = _numbers(n, "padding", axes) or (0,) * axes
    dilations = (_numbers(n, "dilation", axes) if n.has("dilation") else ()) or (1,) * axes
    strides = _numbers(n, "stride", axes) or kernel
    return Windows(kernel, strides, pads * 2, dilations, n.flag("ceil_mode"))


@aten(*_named("max_pool{}d"))
def max_pool(n: TorchNode) -> Value:
    """Values alone."""
    x, axes = n.value("self"), _axes(n)
    w = _windows(n, axes)
    op = MaxPool(w.kernel, w.strides, w.pads, w.dilations, w.ceil_mode)
    y = to_channels_first(n, n.emit(op, to_channels_last(n, _batched(n, x, axes))))
    return _like_given(n, y, x)


@aten(*_named("max_pool{}d_with_indices"))
def max_pool_with_indices(n: TorchNode) -> Results:
    """Indices count through the spatial axes, in each channel anew; only if they are read."""
    if not n.is_read(1):
        return (max_pool(n),)
    x, axes = n.value("self"), _axes(n)
    w = _windows(n, axes)
    op = MaxPoolWithIndices(w.kernel, w.strides, w.pads, w.dilations, w.ceil_mode)
    both = n.emit_all(op, to_channels_last(n, _batched(n, x, axes)))
    return tuple(_like_given(n, to_channels_first(n, y), x) for y in both)


@aten(*_named("avg_pool{}d"))
def avg_pool(n: TorchNode) -> Value:
    """Padding counts if the call says so; a divisor may be given."""
    x, axes = n.value("self"), _axes(n)
    w, images = _windows(n, axes), to_channels_last(n, _batched(n, x, axes))
    divisor = n.argument("divisor_override")
    if divisor is not None:
        return _like_given(n, to_channels_first(n, _divided(n, images, w, int(divisor))), x)
    counted = n.flag("count_include_pad")
    op = AvgPool(w.kernel, w.strides, w.pads, w.dilations, w.ceil_mode, counted)
    return _like_given(n, to_channels_first(n, n.emit(op, images)), x)


def _divided(n: TorchNode, x: Value, w: Windows, divisor: int) -> Value:
    """The sum of each window, zeros around x included, divided by a number."""
    ends = w.needed_ends(x.type.shape[1:-1])
    padded = n.emit(Pad((0, *w.begins, 0), (0, *ends, 0)), x)
    y = n.emit(AvgPool(w.kernel, w.strides, (0,) * len(w.pads), w.dilations), padded)
    return n.emit(Mul(), y, scalar(n.builder, math.prod(w.kernel) / divisor, y))


def _spans(extent: int, count: int) -> list[tuple[int, int]]:
    """Where each of `count` parts of an axis begins and ends; they may overlap."""
    return [(i * extent // count, -(-(i + 1) * extent // count)) for i in range(count)]


def _output_sizes(n: TorchNode, x: Value, axes: int) -> tuple[int, ...]:
    """What is asked for; nothing leaves an axis as it is."""
    given = n.argument("output_size")
    items = given if isinstance(given, tuple) else (given,)
    items = items * axes if len(items) == 1 else items
    extents = x.type.shape[-axes:]
    kept = [None if item in (None, "") else item for item in items]
    if None not in kept:
        sizes = n.sizes("output_size")
        return sizes * axes if len(sizes) == 1 else sizes
    return tuple(e if item is None else int(item) for item, e in zip(kept, extents, strict=True))


@aten(*_named("adaptive_avg_pool{}d"), *_named("_adaptive_avg_pool{}d", ranks="23"))
def adaptive_avg_pool(n: TorchNode) -> Value:
    """A mean if all becomes one, windows if they are all alike, else a mean for each part."""
    x, axes = n.value("self"), _axes(n)
    sizes = _output_sizes(n, x, axes)
    if all(size == 1 for size in sizes):
        rank = x.type.rank
        return n.emit(ReduceMean(tuple(range(rank - axes, rank))), x)
    windows = _even_windows(x.type.shape[-axes:], sizes)
    if windows is None:
        return _by_parts(n, x, sizes, ReduceMean)
    op = AvgPool(windows.kernel, windows.strides, windows.pads, windows.dilations)
    y = to_channels_first(n, n.emit(op, to_channels_last(n, _batched(n, x, axes))))
    return _like_given(n, y, x)


def _even_windows(extents: Sequence[int], sizes: Sequence[int]) -> Windows | None:
    """Windows without overlap, if every extent is a multiple of its size."""
    if any(size < 1 or extent % size for extent, size in zip(extents, sizes, strict=True)):
        return None
    kernel = tuple(extent // size for extent, size in zip(extents, sizes, strict=True))
    return Windows(kernel, kernel, (0,) * (2 * len(kernel)), (1,) * len(kernel))


def _by_parts(
    n: TorchNode, x: Value, sizes: Sequence[int], kind: type[ReduceMean] | type[ReduceMax]
) -> Value:
    """Reduced along one spatial axis after the other, part by part."""
    for axis, size in enumerate(sizes, x.type.rank - len(sizes)):
        parts = [
            n.emit(kind((axis,)), n.emit(slice_axis(x.type, axis, start, stop - start), x))
            for start, stop in _spans(x.type.shape[axis], size)
        ]
        x = n.emit(Concat(axis), *parts) if parts else _nothing(n, x, axis)
    return x


def _nothing(n: TorchNode, x: Value, axis: int) -> Value:
    return n.emit(slice_axis(x.type, axis, 0, 0), x)


@aten(*_named("adaptive_max_pool{}d"))
def adaptive_max_pool(n: TorchNode) -> Results:
    """Indices count through the spatial axes, in each channel anew."""
    x, axes = n.value("self"), _axes(n)
    sizes = _output_sizes(n, x, axes)
    if not n.is_read(1):
        return (_by_parts(n, x, sizes, ReduceMax),)
    extents = x.type.shape[-axes:]
    windows = _even_windows(extents, sizes)
    if windows is None:
        return _indexed_parts(n, x, sizes)
    op = MaxPoolWithIndices(windows.kernel, windows.strides, windows.pads, windows.dilations)
    both = n.emit_all(op, to_channels_last(n, _batched(n, x, axes)))
    return tuple(_like_given(n, to_channels_first(n, y), x) for y in both)


def _indexed_parts(n: TorchNode, x: Value, sizes: Sequence[int]) -> Results:
    """Along the last axis first: the first largest element, then where it was found."""
    axes, rank = len(sizes), x.type.rank
    extents = x.type.shape[-axes:]
    places = n.emit(Expand(x.type.shape), multiples(n.builder, extents, 1, "places"))
    for axis in reversed(range(rank - axes, rank)):
        values, found = [], []
        for start, stop in _spans(x.type.shape[axis], sizes[axis - rank + axes]):
            part = n.emit(slice_axis(x.type, axis, start, stop - start), x)
            indices = n.emit(slice_axis(places.type, axis, start, stop - start), places)
            best = n.emit(ArgMax(axis), part)
            values.append(n.emit(ReduceMax((axis,)), part))
            found.append(n.emit(GatherElements(axis), indices, best))
        x, places = n.emit(Concat(axis), *values), n.emit(Concat(axis), *found)
    return x, places


@aten("max_unpool2d.default", "max_unpool3d.default")
def max_unpool(n: TorchNode) -> Value:
    """Zeros, with each element put where its index says, in each channel."""
    x, indices, size = n.value("self"), n.value("indices"), n.sizes("output_size")
    lead = x.type.shape[: x.type.rank - len(size)]
    rows, width = math.prod(lead), math.prod(size)
    flat = Reshape((rows, x.type.size // max(1, rows)))
    zeros = n.emit(Expand((rows, width)), scalar(n.builder, 0, x))
    filled = n.emit(ScatterElements(1), zeros, n.emit(flat, indices), n.emit(flat, x))
    return n.emit(Reshape((*lead, *size)), filled)


@aten("fractional_max_pool2d.default", "fractional_max_pool3d.default")
def fractional_max_pool(n: TorchNode) -> Value:
    """Windows that random numbers place."""
    raise n.fail("pooling by random windows is not supported", help="use adaptive_max_pool2d")
