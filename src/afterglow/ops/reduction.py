"""Reductions: sum, mean, largest, smallest and product along axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from afterglow.graph import Array, Builder, Op, Value, op
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Div, scalar
from afterglow.ops.rules import normal_axes, require, require_number
from afterglow.types import TensorType
from afterglow.types.dtype import Kind, boolean, f32


@dataclass(frozen=True, repr=False)
class Reduction(Op):
    """Base: many elements become one. No axes means that nothing is reduced."""

    reads_once = ("x",)
    axes: tuple[int, ...]
    keepdims: bool = True

    def infer(self, x: TensorType) -> TensorType:
        """The shape without the reduced axes, or with extent 1 in their place."""
        self.check(x)
        axes = normal_axes(self.axes, x)
        kept = (
            1 if axis in axes else extent
            for axis, extent in enumerate(x.shape)
            if self.keepdims or axis not in axes
        )
        return TensorType(x.dtype, tuple(kept))

    def check(self, x: TensorType) -> None:
        """Refuse element types that the reduction is not defined on."""
        require_number(x=x)

    def parallel(
        self, axis: int, result: TensorType, operands: Sequence[TensorType | None]
    ) -> tuple[int | None, ...] | None:
        """Axes that are not reduced follow x."""
        (x,) = operands
        assert x is not None
        kept = [a for a in range(x.rank) if self.keepdims or a not in normal_axes(self.axes, x)]
        return None if kept[axis] in normal_axes(self.axes, x) else (kept[axis],)

    def permuted(self, perm: tuple[int, ...]) -> Op | None:
        """Along the same axes at their new places, if the rank stays."""
        if self.axes and not self.keepdims:
            return None
        rank = len(perm)
        return replace(self, axes=tuple(sorted(perm.index(axis % rank) for axis in self.axes)))


class Extreme(Reduction):
    """Base: the largest or the smallest; of booleans, any or all."""

    def check(self, x: TensorType) -> None:
        """Everything that has an order."""
        require(
            x.dtype is boolean or (x.dtype.is_number and x.dtype.kind is not Kind.COMPLEX),
            f"x must hold numbers that have an order, or bool, got {x}",
        )


@op("reduce_sum")
class ReduceSum(Reduction):
    """The sum along axes; 0 of nothing."""

    def evaluate(self, x: Array) -> Array:
        """NumPy's sum, in the type of the elements."""
        return x.sum(self.axes, dtype=x.dtype, keepdims=self.keepdims)


@op("reduce_mean")
class ReduceMean(Reduction):
    """The mean along axes: the sum divided by the count; of integers rounded towards zero."""

    def check(self, x: TensorType) -> None:
        """No small integers: their sum would wrap."""
        require_number(x=x)
        require(not x.dtype.is_integer or x.dtype.bits >= 32, f"{x} is too narrow for a mean")

    def evaluate(self, x: Array) -> Array:
        """Not NumPy's mean: that warns where there is nothing, and makes integers floats."""
        total = x.sum(self.axes, dtype=x.dtype, keepdims=self.keepdims)
        count = math.prod(x.shape[axis] for axis in self.axes)
        return Div().evaluate(total, np.array(count, x.dtype))

    def lower(self, b: Builder, x: Value) -> Value:
        """The sum, divided by the count; of narrow floats in float32, where it has room."""
        narrow = x.type.dtype.is_narrow_float
        terms = b.emit(Cast(f32), x) if narrow else x
        total = b.emit(ReduceSum(self.axes, self.keepdims), terms)
        count = math.prod(x.type.shape[axis] for axis in self.axes)
        mean = b.emit(Div(), total, scalar(b, count, terms))
        return b.emit(Cast(x.type.dtype), mean) if narrow else mean


@op("reduce_max")
class ReduceMax(Extreme):
    """The largest along axes; NaN if any is; of nothing the least that the type can hold."""

    def evaluate(self, x: Array) -> Array:
        """NumPy's max."""
        return x.max(self.axes, keepdims=self.keepdims, initial=_limits(x)[0])


@op("reduce_min")
class ReduceMin(Extreme):
    """The smallest along axes; NaN if any is; of nothing the most that the type can hold."""

    def evaluate(self, x: Array) -> Array:
        """NumPy's min."""
        return x.min(self.axes, keepdims=self.keepdims, initial=_limits(x)[1])


@op("reduce_prod")
class ReduceProd(Reduction):
    """The product along axes; 1 of nothing."""

    def evaluate(self, x: Array) -> Array:
        """NumPy's product, in the type of the elements."""
        return x.prod(self.axes, dtype=x.dtype, keepdims=self.keepdims)


def _limits(x: Array) -> tuple[Any, Any]:
    """The least and the greatest element of a type."""
    match x.dtype.kind:
        case "b":
            return False, True
        case "i" | "u":
            return np.iinfo(x.dtype).min, np.iinfo(x.dtype).max
    return -np.inf, np.inf
