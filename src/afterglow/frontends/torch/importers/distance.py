"""ATen's distances between vectors."""

from __future__ import annotations

import math

import numpy as np

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.torch.node import TorchNode
from afterglow.frontends.torch.registry import aten
from afterglow.graph import Value
from afterglow.ops.arithmetic import Arithmetic
from afterglow.ops.elementwise import Abs, Equal, Max, Mul, Not, Sub, scalar
from afterglow.ops.functions import Sqrt
from afterglow.ops.indexing import Gather
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Expand, Reshape
from afterglow.ops.power import Pow
from afterglow.ops.reduction import ReduceMax, ReduceSum
from afterglow.types.extent import largest

_MOST_BY_DIFFERENCES = 25
"""Up to so many rows PyTorch takes differences, which are more exact than products."""


@aten("cdist.default", "_cdist_forward.default", "_euclidean_dist.default")
def cdist(n: TorchNode) -> Value:
    """Between each row of a matrix and each of another, in batches."""
    x, y = n.value("x1"), n.value("x2")
    degree = 2.0 if n.argument("p") is None else float(n.scalar("p"))
    mode = n.argument("compute_mode")
    rows = max(largest(v.type.shape[-2]) for v in (x, y))
    by_products = mode == 1 or (mode != 2 and rows > _MOST_BY_DIFFERENCES)
    if degree == 2 and by_products and mode != 2:
        return _by_products(n, x, y)
    *batch, rows, width = x.type.shape
    left = n.emit(Reshape((*batch, rows, 1, width)), x)
    *batch, rows, width = y.type.shape
    right = n.emit(Reshape((*batch, 1, rows, width)), y)
    return length(n, n.emit(Sub(), left, right), degree)


def _by_products(n: TorchNode, x: Value, y: Value) -> Value:
    """sqrt(x² + y² - 2 x y)."""
    column, row = (*x.type.shape[:-1], 1), (*y.type.shape[:-2], 1, y.type.shape[-2])
    squares = (n.emit(Reshape(shape), _square(n, v)) for v, shape in ((x, column), (y, row)))
    t = Arithmetic(n.builder, x)
    product = n.emit(MatMul(False, True), x, y)
    square = t.sub(t.add(*squares), t.mul(product, 2.0))
    return n.emit(Sqrt(), n.emit(Max(), square, t.value(0.0)))


def _square(n: TorchNode, x: Value) -> Value:
    """The sum of squares along the last axis."""
    return n.emit(ReduceSum((x.type.rank - 1,), False), n.emit(Mul(), x, x))


@aten("pdist.default", "_pdist_forward.default")
def pdist(n: TorchNode) -> Value:
    """Between all pairs of rows of a matrix."""
    x = n.value("self")
    rows, _ = n.extents(x, 2)
    first, second = np.triu_indices(rows, 1)
    left, right = (n.emit(Gather(0), x, n.constant(i.astype(np.int64))) for i in (first, second))
    return length(n, n.emit(Sub(), left, right), float(n.scalar("p")))


def length(n: TorchNode, x: Value, degree: float) -> Value:
    """The norm of a degree along the last axis: how many are not 0 for degree 0."""
    axes, size = (x.type.rank - 1,), n.emit(Abs(), x)
    if degree == math.inf:
        return _largest(n, size, axes)
    if degree == 0:
        zero = n.emit(Equal(), x, scalar(n.builder, 0, x))
        return n.emit(ReduceSum(axes, False), as_dtype(n, n.emit(Not(), zero), x.type.dtype))
    if degree == 1:
        return n.emit(ReduceSum(axes, False), size)
    if degree == 2:
        return n.emit(Sqrt(), _square(n, x))
    power = n.emit(Pow(), size, scalar(n.builder, degree, x))
    total = n.emit(ReduceSum(axes, False), power)
    return n.emit(Pow(), total, scalar(n.builder, 1 / degree, x))


def _largest(n: TorchNode, size: Value, axes: tuple[int, ...]) -> Value:
    """The largest size; 0 of none."""
    if size.type.shape[-1] == 0:
        return n.emit(Expand(size.type.shape[:-1]), scalar(n.builder, 0, size))
    return n.emit(ReduceMax(axes, False), size)
