"""Ops of PyTorch that take parts of a tensor, or put them in."""

from __future__ import annotations

import numpy as np

from afterglow.frontends.common.bounds import slice_bounds
from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.movement import expanded, reshaped, split_along
from afterglow.frontends.torch.importers.operands import axis_of
from afterglow.frontends.torch.node import TorchNode
from afterglow.frontends.torch.registry import aten
from afterglow.graph import Value
from afterglow.ops import elementwise as e
from afterglow.ops.indexing import Gather
from afterglow.ops.movement import slice_axis
from afterglow.ops.overwrite import Overwrite
from afterglow.support.errors import ModelError, UnsupportedError
from afterglow.types.extent import is_ranged

_LAST = 2**63 - 1


@aten("slice.Tensor", "slice_copy.Tensor")
def slice_tensor(n: TorchNode) -> Value:
    """Some elements along an axis."""
    x = n.value("self")
    axis = axis_of(n, "dim", x.type.rank)
    start, count, step = _bounds(n, x, axis)
    if count == x.type.shape[axis] and step == 1:
        return x
    return n.emit(slice_axis(x.type, axis, start, count, step), x)


def _bounds(n: TorchNode, x: Value, axis: int) -> tuple[int, int, int]:
    """First element, number of elements and step."""
    start = n.size("start") if n.argument("start") is not None else 0
    end = n.size("end") if n.argument("end") is not None else _LAST
    step = n.size("step")
    extent = x.type.shape[axis]
    if not is_ranged(end) and end == _LAST:
        end = extent
    return (*slice_bounds(extent, start, end, step), step)


@aten("narrow")
def narrow(n: TorchNode) -> Value:
    """So many elements from one on."""
    x = n.value("self")
    axis, start = axis_of(n, "dim", x.type.rank), n.size("start")
    start = start + x.type.shape[axis] if start < 0 else start
    return n.emit(slice_axis(x.type, axis, start, n.size("length")), x)


@aten("select.int", "select_copy.int")
def select(n: TorchNode) -> Value:
    """One slice along an axis, which goes."""
    x = n.value("self")
    axis = axis_of(n, "dim", x.type.rank)
    index = n.argument("index")
    if isinstance(index, Value) and not _is_settled(n, index):
        return n.emit(Gather(axis), x, index)
    taken = n.emit(slice_axis(x.type, axis, _place(n, x, axis), 1), x)
    return reshaped(n, taken, (*x.type.shape[:axis], *x.type.shape[axis + 1 :]))


def _is_settled(n: TorchNode, value: Value) -> bool:
    """Whether a value follows from constants and extents."""
    return n.graph.known.symbols_of(value) is not None or n.graph.known.is_known(value)


def _place(n: TorchNode, x: Value, axis: int) -> int:
    index, extent = n.size("index"), x.type.shape[axis]
    if not -extent <= index < extent:
        raise ModelError(f"there is no element {index} along axis {axis} of {x.type}")
    return index + extent if index < 0 else index


@aten("select_scatter")
def select_scatter(n: TorchNode) -> Value:
    """With one slice along an axis replaced."""
    x = n.value("self")
    axis, shape = axis_of(n, "dim", x.type.rank), x.type.shape
    source = as_dtype(n, n.value("src"), x.type.dtype)
    source = reshaped(n, source, (*shape[:axis], 1, *shape[axis + 1 :]))
    return overwritten(n, x, source, axis, _place(n, x, axis))


def overwritten(n: TorchNode, x: Value, part: Value, axis: int, start: int) -> Value:
    """x with a part of it along an axis replaced."""
    return n.emit(
        Overwrite(tuple(start if at == axis else 0 for at in range(x.type.rank))), x, part
    )


@aten("slice_scatter")
def slice_scatter(n: TorchNode) -> Value:
    """With some elements along an axis replaced."""
    x = n.value("self")
    axis = axis_of(n, "dim", x.type.rank)
    start, count, step = _bounds(n, x, axis)
    shape = x.type.shape
    source = as_dtype(n, n.value("src"), x.type.dtype)
    source = expanded(n, source, (*shape[:axis], count, *shape[axis + 1 :]))
    if not is_ranged(count) and count == 0:
        return x
    if step == 1:
        return overwritten(n, x, source, axis, start)
    if is_ranged(shape[axis]) or is_ranged(start):
        raise UnsupportedError("a slice with a step cannot be put into an axis of dynamic extent")
    places = np.full(shape[axis], -1)
    places[start : start + (count - 1) * step + 1 : step] = np.arange(count)
    mask = (places >= 0).reshape(-1, *(1,) * (x.type.rank - axis - 1))
    spread = n.emit(Gather(axis), source, n.constant(np.maximum(places, 0)))
    return n.emit(e.Where(), n.constant(mask), spread, x)


@aten("split.Tensor", "split_copy.Tensor")
def split(n: TorchNode) -> list[Value]:
    """Parts of one length, the last one the rest."""
    x, size = n.value("self"), n.size("split_size")
    axis = axis_of(n, "dim", x.type.rank)
    extent = x.type.shape[axis]
    if is_ranged(extent):
        return split_along(n, x, axis, _ranged_parts(n, extent, size))
    lengths = [min(size, extent - at) for at in range(0, extent, size)] if size else [extent]
    return split_along(n, x, axis, lengths or [0])


def _ranged_parts(n: TorchNode, extent: int, size: int) -> list[int]:
    """As many parts as the program has results."""
    count = len(n.proto.output)
    return [*(size,) * (count - 1), extent - size * (count - 1)]


@aten("split_with_sizes", "split_with_sizes_copy", "split.sizes")
def split_with_sizes(n: TorchNode) -> list[Value]:
    """Parts of given lengths."""
    x = n.value("self")
    lengths = n.sizes("split_sizes" if n.has("split_sizes") else "split_size")
    return split_along(n, x, axis_of(n, "dim", x.type.rank), lengths)


@aten("unbind.int", "unbind_copy.int")
def unbind(n: TorchNode) -> list[Value]:
    """Each slice along an axis, which goes."""
    x = n.value("self")
    axis = axis_of(n, "dim", x.type.rank)
    parts = split_along(n, x, axis, (1,) * x.type.shape[axis])
    shape = (*x.type.shape[:axis], *x.type.shape[axis + 1 :])
    return [reshaped(n, part, shape) for part in parts]
