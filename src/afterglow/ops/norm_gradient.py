"""What flows back through a normalization of rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterglow.graph import Builder, Op, Value, op
from afterglow.ops.arithmetic import Arithmetic
from afterglow.ops.functions import Sqrt
from afterglow.ops.reduction import ReduceMean, ReduceSum, narrowed, widened
from afterglow.ops.rules import require, require_float, require_same_dtype, require_shape
from afterglow.types import Array, TensorType


@op("norm_gradient")
class NormGradient(Op):
    """The gradients of x, scale and bias of a layer norm over the last axis, or of an RMS norm.

    With y = f (x - mean), f = 1 / sqrt(variance + epsilon) and g = grad scale, x gets
    f (g - mean(g) - y mean(g y)), scale and bias the sums of grad y and of grad over all rows.
    An RMS norm is not centred: it has no means of x and g.
    """

    result_names = ("dx", "dscale", "dbias")
    epsilon: float = 1e-5
    centred: bool = True

    def infer(
        self, grad: TensorType, x: TensorType, scale: TensorType | None = None
    ) -> tuple[TensorType, TensorType, TensorType]:
        """The type of x, then twice that of one of its rows."""
        require_float(x=x)
        require(x.rank > 0, f"x must have an axis to normalize, got {x}")
        require_same_dtype(grad=grad, x=x)
        require_shape(x.shape, grad=grad)
        row = x.with_shape(x.shape[-1:])
        if scale is not None:
            require_same_dtype(x=x, scale=scale)
            require_shape(row.shape, scale=scale)
        return x, row, row

    def work(self, result: TensorType, operands: Sequence[TensorType | None]) -> int:
        """A few for each element."""
        return 8 * result.size

    def evaluate(
        self, grad: Array, x: Array, scale: Array | None = None
    ) -> tuple[Array, Array, Array]:
        """By the definition."""
        inner = x - x.mean(-1, keepdims=True) if self.centred else x
        factor = 1 / np.sqrt(np.square(inner).mean(-1, keepdims=True) + self.epsilon)
        y = inner * factor
        flow = grad if scale is None else grad * scale
        mean = flow.mean(-1, keepdims=True) if self.centred else 0
        dx = factor * (flow - mean - y * (flow * y).mean(-1, keepdims=True))
        rows = tuple(range(x.ndim - 1))
        return dx, (grad * y).sum(rows), grad.sum(rows)

    def lower(
        self, b: Builder, grad: Value, x: Value, scale: Value | None = None
    ) -> tuple[Value, Value, Value]:
        """As `evaluate`, from simpler ops."""
        wide, slope = widened(b, x), widened(b, grad)
        a, mean = Arithmetic(b, wide), ReduceMean((x.type.rank - 1,))
        inner = a.sub(wide, b.emit(mean, wide)) if self.centred else wide
        square = b.emit(mean, a.mul(inner, inner))
        factor = a.div(1, b.emit(Sqrt(), a.add(square, self.epsilon)))
        y = a.mul(inner, factor)
        flow = slope if scale is None else a.mul(slope, widened(b, scale))
        rest = a.sub(flow, a.mul(y, b.emit(mean, a.mul(flow, y))))
        rest = a.sub(rest, b.emit(mean, flow)) if self.centred else rest
        rows = ReduceSum(tuple(range(x.type.rank - 1)), keepdims=False)
        found = a.mul(factor, rest), b.emit(rows, a.mul(slope, y)), b.emit(rows, slope)
        dx, dscale, dbias = (narrowed(b, value, x) for value in found)
        return dx, dscale, dbias
