"""Normalizations that return what they measured."""

from __future__ import annotations

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.definition.context import NodeContext
from afterglow.graph import Value
from afterglow.ops.elementwise import Add, Mul, Sub, scalar
from afterglow.ops.functions import Reciprocal, Sqrt
from afterglow.ops.normalization import LayerNorm
from afterglow.ops.reduction import ReduceMean
from afterglow.ops.rules import normal_axis
from afterglow.types import DType


def layer_norm_with_statistics(
    n: NodeContext,
    x: Value,
    op: LayerNorm,
    affine: tuple[Value | None, Value | None],
    wide: DType,
) -> tuple[Value, Value, Value]:
    """The normalized x, its mean, and the inverse of its standard deviation."""
    scale, bias = affine
    axes = tuple(range(normal_axis(op.axis, x.type), x.type.rank))
    wider = as_dtype(n, x, wide)
    mean = n.emit(ReduceMean(axes, True), wider)
    centred = n.emit(Sub(), wider, mean)
    inverse = inverse_root(n, centred, axes, op.epsilon)
    y = as_dtype(n, n.emit(Mul(), centred, inverse), x.type.dtype)
    y = y if scale is None else n.emit(Mul(), y, scale)
    return (y if bias is None else n.emit(Add(), y, bias), mean, inverse)


def inverse_root(n: NodeContext, x: Value, axes: tuple[int, ...], epsilon: float) -> Value:
    """1 / sqrt(mean of squares + epsilon), along axes that stay as ones."""
    square = n.emit(ReduceMean(axes, True), n.emit(Mul(), x, x))
    return n.emit(
        Reciprocal(), n.emit(Sqrt(), n.emit(Add(), square, scalar(n.builder, epsilon, x)))
    )
