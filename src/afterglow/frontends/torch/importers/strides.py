"""Ops of PyTorch that look at how a tensor lies in memory."""

from __future__ import annotations

import math

import numpy as np

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.movement import expanded, integer_constant, reshaped
from afterglow.frontends.definition.limits import check_table
from afterglow.frontends.torch.importers.operands import axis_of
from afterglow.frontends.torch.node import LAYOUT, TorchNode
from afterglow.frontends.torch.registry import aten
from afterglow.graph import Value
from afterglow.ops.indexing import Gather, ScatterND
from afterglow.support.errors import UnsupportedError
from afterglow.types import Array
from afterglow.types.extent import is_ranged


@aten("sym_stride.int")
def stride(n: TorchNode) -> Value:
    """The stride that the tensor has in the program."""
    return integer_constant(n, _layout(n)[1 + axis_of(n, "dim", n.value("self").type.rank)])


@aten("sym_storage_offset")
def storage_offset(n: TorchNode) -> Value:
    """Where the tensor begins in the program."""
    return integer_constant(n, _layout(n)[0])


@aten("as_strided", "as_strided_copy")
def as_strided(n: TorchNode) -> Value:
    """Elements by their places in memory."""
    x, size = n.value("self"), n.sizes("size")
    flat = reshaped(n, x, (x.type.size,))
    return reshaped(n, n.emit(Gather(0), flat, n.constant(_sources(n, x).reshape(-1))), size)


@aten("as_strided_scatter")
def as_strided_scatter(n: TorchNode) -> Value:
    """Elements replaced by their places in memory."""
    x = n.value("self")
    places = _sources(n, x).reshape(-1, 1)
    source = as_dtype(n, n.value("src"), x.type.dtype)
    source = reshaped(n, expanded(n, source, n.sizes("size")), (len(places),))
    flat = reshaped(n, x, (x.type.size,))
    return reshaped(n, n.emit(ScatterND(), flat, n.constant(places), source), x.type.shape)


def _sources(n: TorchNode, x: Value) -> Array:
    """Which elements of a tensor lie where a view with strides looks."""
    offset, *strides = _layout(n)
    size, steps = n.sizes("size"), n.sizes("stride")
    if x.type.is_ranged or any(map(is_ranged, (*size, *steps))):
        raise UnsupportedError("strides of a tensor of dynamic extents are not supported")
    check_table(math.prod(size))
    check_table(x.type.size)
    start = offset if n.argument("storage_offset") is None else n.size("storage_offset")
    own, wanted = _places(offset, x.type.shape, strides), _places(start, size, steps)
    last = max((int(places.max()) for places in (own, wanted) if places.size), default=0)
    elements = np.full(last + 1, -1)
    elements[own.reshape(-1)] = np.arange(own.size)
    found: Array = elements[wanted]
    if (found < 0).any():
        raise UnsupportedError("a view with strides reads memory that its tensor has no part in")
    return found


def _places(offset: int, shape: tuple[int, ...], strides: list[int] | tuple[int, ...]) -> Array:
    """Where elements lie in memory."""
    places = np.full(shape, offset)
    for axis, (extent, step) in enumerate(zip(shape, strides, strict=True)):
        along = np.arange(extent) * step
        places = places + along.reshape(-1, *(1,) * (len(shape) - axis - 1))
    return places


def _layout(n: TorchNode) -> tuple[int, ...]:
    """Where the operand begins in its memory, and its strides."""
    found: tuple[int, ...] | None = n.attribute(LAYOUT)
    if found is None:
        raise UnsupportedError("strides of a tensor of dynamic extents are not supported")
    return found
