"""Ops that pick and put elements by index."""

from __future__ import annotations

import numpy as np

from afterglow.exporters.onnx.node import NodeWriter
from afterglow.exporters.onnx.registry import exports
from afterglow.ops.indexing import Gather, GatherElements, GatherND, Iota, ScatterND
from afterglow.ops.scatter import ScatterElements
from afterglow.types.dtype import i64


def _operands(n: NodeWriter) -> list[str]:
    """The operands, with indices of a type that ONNX takes everywhere."""
    data, indices, *updates = n.operands
    return [data, n.as_type(indices, n.type(1).dtype, i64), *updates]


@exports(Gather)
def gather(n: NodeWriter) -> str:
    """Slices."""
    return n.emit("Gather", *_operands(n), axis=n.op.axis)


@exports(GatherElements)
def gather_elements(n: NodeWriter) -> str:
    """Single elements."""
    return n.emit("GatherElements", *_operands(n), axis=n.op.axis)


@exports(GatherND)
def gather_nd(n: NodeWriter) -> str:
    """Slices by tuples of indices."""
    return n.emit("GatherND", *_operands(n), batch_dims=n.op.batch_axes)


@exports(ScatterND)
def scatter_nd(n: NodeWriter) -> str:
    """Slices put at tuples of indices."""
    return n.emit("ScatterND", *_operands(n), reduction=n.op.reduction.value)


@exports(ScatterElements)
def scatter_elements(n: NodeWriter) -> str:
    """Single elements put at indices."""
    return n.emit("ScatterElements", *_operands(n), axis=n.op.axis, reduction=n.op.reduction.value)


@exports(Iota)
def iota(n: NodeWriter) -> str:
    """A range along one axis, expanded to the others."""
    axis = n.op.axis % len(n.op.shape)
    one, zero = (n.constant(np.array(number, np.int64)) for number in (1, 0))
    length = n.emit("Squeeze", n.integers(n.op.shape[axis]))
    counts = n.emit("Range", zero, length, one)
    apart = [-1 if i == axis else 1 for i in range(len(n.op.shape))]
    line = n.reshape(counts, *apart)
    whole = n.emit("Expand", line, n.integers(*n.op.shape))
    return n.as_type(whole, i64, n.op.dtype)
