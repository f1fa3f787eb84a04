"""Caffe2's operators that select by index."""

from __future__ import annotations

import numpy as np

from afterglow.frontends.caffe2.registry import Caffe2Node, caffe2_op
from afterglow.frontends.common.conversion import as_dtype
from afterglow.graph import Value
from afterglow.ops.elementwise import Equal, LessEqual, Not
from afterglow.ops.indexing import Gather, Iota, ScatterND
from afterglow.ops.movement import Reshape
from afterglow.ops.reduction import ReduceSum
from afterglow.support.errors import ModelError
from afterglow.types import dtype as d


@caffe2_op("Gather")
def gather(n: Caffe2Node) -> Value:
    """Slices along an axis, the first by default."""
    return n.emit(Gather(n.axis(n[0], default=0)), n[0], n[1])


@caffe2_op("BatchGather")
def batch_gather(n: Caffe2Node) -> Value:
    """Slices along the second axis."""
    return n.emit(Gather(1), n[0], n[1])


@caffe2_op("OneHot")
def one_hot(n: Caffe2Node) -> Value:
    """Truth values [N, classes]: whether the class is that of the row."""
    indices, classes = n[0], n.known_int(1)
    (rows,) = n.extents(indices, 1)
    numbers = n.emit(Iota((1, classes), 1, indices.type.dtype))
    return n.emit(Equal(), n.emit(Reshape((rows, 1)), indices), numbers)


@caffe2_op("ScatterAssign")
def scatter_assign(n: Caffe2Node) -> Value:
    """Rows, chosen by their indices, replaced."""
    data, indices, slices = n[0], n[1], n[2]
    (count,) = n.extents(indices, 1)
    wide = as_dtype(n, indices, d.i64)
    return n.emit(ScatterND(), data, n.emit(Reshape((count, 1)), wide), slices)


@caffe2_op("Bucketize")
def bucketize(n: Caffe2Node) -> Value:
    """How many of the boundaries are below each element."""
    x = n[0]
    boundaries = n.numbers("boundaries")
    if not boundaries or list(boundaries) != sorted(boundaries):
        raise ModelError("attribute 'boundaries' must be numbers in ascending order")
    bounds = n.constant(np.array(boundaries, np.float32))
    each = n.emit(Reshape((*x.type.shape, 1)), as_dtype(n, x, d.f32))
    below = as_dtype(n, n.emit(Not(), n.emit(LessEqual(), each, bounds)), d.i32)
    return n.emit(ReduceSum((x.type.rank,), False), below)
