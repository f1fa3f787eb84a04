"""Sums over all axes but that of the channels: what batch normalization needs in training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from afterglow.graph import Builder, Gradients, Op, Value, op
from afterglow.ops.elementwise import Add, Mul, Sub, scalar
from afterglow.ops.movement import Expand, Reshape
from afterglow.ops.reduction import ReduceMean, ReduceSum, narrowed, widened
from afterglow.ops.rules import normal_axis, require_float, require_same_dtype, require_shape
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, TensorType


def along(vector: Array, axis: int, rank: int) -> Array:
    """A vector shaped so that it broadcasts along one axis."""
    return vector.reshape([-1 if i == axis else 1 for i in range(rank)])


def emit_along(b: Builder, vector: Value, axis: int, rank: int) -> Value:
    """The same, of a value; the last axis needs no reshape."""
    if axis == rank - 1:
        return vector
    shape = (vector.type.size,) + (1,) * (rank - 1 - axis)
    return b.emit(Reshape(shape), vector)


@dataclass(frozen=True, repr=False)
class ChannelReduction(Op):
    """Base: two vectors with an element for each channel, of all elements of that channel."""

    results_along_axis = True
    axis: int = -1

    def others(self, rank: int) -> tuple[int, ...]:
        """The axes that are reduced."""
        return tuple(axis for axis in range(rank) if axis != self.axis % rank)

    def channels(self, x: TensorType) -> TensorType:
        """The type of one result."""
        return x.with_shape((x.shape[normal_axis(self.axis, x)],))

    def permuted(self, perm: tuple[int, ...]) -> Op:
        """The channels at their new place."""
        return replace(self, axis=perm.index(self.axis % len(perm)))

    def work(self, result: TensorType, operands: Sequence[TensorType | None]) -> int:
        """A few for each element."""
        return 2 * sum(x.size for x in operands if x is not None)


@op("channel_moments")
class ChannelMoments(ChannelReduction):
    """Mean and variance of each channel; the variance is the mean square distance from the mean."""

    result_names = ("mean", "variance")

    def infer(self, x: TensorType) -> tuple[TensorType, TensorType]:
        """Two vectors."""
        require_float(x=x)
        return self.channels(x), self.channels(x)

    def evaluate(self, x: Array) -> tuple[Array, Array]:
        """The mean first, then that of squares of what differs from it."""
        mean = ReduceMean(self.others(x.ndim), False).evaluate(x)
        centred = x - along(mean, self.axis % x.ndim, x.ndim)
        return mean, ReduceMean(self.others(x.ndim), False).evaluate(np.square(centred))

    def lower(self, b: Builder, x: Value) -> tuple[Value, Value]:
        """As `evaluate`."""
        rank, axis = x.type.rank, normal_axis(self.axis, x.type)
        mean_of, wide = ReduceMean(self.others(rank), False), widened(b, x)
        mean = b.emit(mean_of, wide)
        centred = b.emit(Sub(), wide, emit_along(b, mean, axis, rank))
        variance = b.emit(mean_of, b.emit(Mul(), centred, centred))
        return narrowed(b, mean, x), narrowed(b, variance, x)

    def gradient(self, b: Builder, out: tuple[Value, ...], grad: Gradients, x: Value) -> Gradients:
        """A share of that of the mean, and of that of the variance twice the distance from it."""
        rank, axis = x.type.rank, normal_axis(self.axis, x.type)
        count = math.prod(x.type.shape[i] for i in self.others(rank))
        of_mean, of_variance = (
            None if part is None else emit_along(b, part, axis, rank) for part in grad
        )
        total = None
        if of_variance is not None:
            share = b.emit(Mul(), of_variance, scalar(b, 2 / max(1, count), x))
            centred = b.emit(Sub(), x, emit_along(b, out[0], axis, rank))
            total = b.emit(Mul(), centred, share)
        if of_mean is not None:
            share = b.emit(Mul(), of_mean, scalar(b, 1 / max(1, count), x))
            whole = b.emit(Expand(x.type.shape), share) if total is None else share
            total = whole if total is None else b.emit(Add(), total, whole)
        return (total,)


@op("channel_sums")
class ChannelSums(ChannelReduction):
    """For each channel the sum of a gradient, and that of gradient times (x - mean)."""

    result_names = ("total", "product")
    along_axis = ("mean",)

    def infer(
        self, grad: TensorType, x: TensorType, mean: TensorType
    ) -> tuple[TensorType, TensorType]:
        """Two vectors."""
        require_float(x=x)
        require_same_dtype(grad=grad, x=x, mean=mean)
        require_shape(x.shape, grad=grad)
        require_shape(self.channels(x).shape, mean=mean)
        return self.channels(x), self.channels(x)

    def evaluate(self, grad: Array, x: Array, mean: Array) -> tuple[Array, Array]:
        """By the definition."""
        total = ReduceSum(self.others(x.ndim), False)
        centred = x - along(mean, self.axis % x.ndim, x.ndim)
        return total.evaluate(grad), total.evaluate(grad * centred)

    def lower(self, b: Builder, grad: Value, x: Value, mean: Value) -> tuple[Value, Value]:
        """As `evaluate`."""
        rank, axis = x.type.rank, normal_axis(self.axis, x.type)
        total, wide = ReduceSum(self.others(rank), False), widened(b, grad)
        centred = b.emit(Sub(), widened(b, x), emit_along(b, widened(b, mean), axis, rank))
        found = b.emit(total, wide), b.emit(total, b.emit(Mul(), wide, centred))
        return narrowed(b, found[0], x), narrowed(b, found[1], x)
