"""Reductions: sum, mean, largest, smallest and product along axes; running sums and products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from afterglow.graph import Builder, Gradients, Op, Value, op
from afterglow.ops.control import Values, emit_scan
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import (
    Add,
    Binary,
    Div,
    Equal,
    Mul,
    Neg,
    Not,
    Sub,
    Where,
    scalar,
)
from afterglow.ops.fill import Fill
from afterglow.ops.movement import Expand, Reshape, Transpose, flip, taken
from afterglow.ops.rules import normal_axes, normal_axis, require, require_number
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, DType, TensorType
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
        (x,) = self.required_of(operands)
        kept = [a for a in range(x.rank) if self.keepdims or a not in normal_axes(self.axes, x)]
        return None if kept[axis] in normal_axes(self.axes, x) else (kept[axis],)

    def permuted(self, perm: tuple[int, ...]) -> Op | None:
        """Along the same axes at their new places, if the rank stays."""
        if self.axes and not self.keepdims:
            return None
        rank = len(perm)
        return replace(self, axes=tuple(sorted(perm.index(axis % rank) for axis in self.axes)))

    def apart(self, b: Builder, reduced: Value, x: Value) -> Value:
        """A result, or its gradient, with axes of extent 1 in the place of those reduced."""
        shape = Reduction(self.axes).infer(x.type).shape
        return reduced if reduced.type.shape == shape else b.emit(Reshape(shape), reduced)


class Extreme(Reduction):
    """Base: the largest or the smallest; of booleans, any or all."""

    def check(self, x: TensorType) -> None:
        """Everything that has an order."""
        require(
            x.dtype is boolean or (x.dtype.is_number and x.dtype.kind is not Kind.COMPLEX),
            f"x must hold numbers that have an order, or bool, got {x}",
        )

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """To the elements that equal the result, which share it."""
        found = b.emit(Cast(x.type.dtype), b.emit(Equal(), x, self.apart(b, out, x)))
        count = b.emit(ReduceSum(self.axes), found)
        return (b.emit(Mul(), found, b.emit(Div(), self.apart(b, grad, x), count)),)


@op("reduce_sum")
class ReduceSum(Reduction):
    """The sum along axes; 0 if empty."""

    def evaluate(self, x: Array) -> Array:
        """NumPy's sum, in the type of the elements."""
        return x.sum(self.axes, dtype=x.dtype, keepdims=self.keepdims)

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """The same for each term."""
        return (b.emit(Expand(x.type.shape), self.apart(b, grad, x)),)


@op("reduce_mean")
class ReduceMean(Reduction):
    """The mean along axes; for integers rounded towards zero."""

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
        terms = widened(b, x)
        total = b.emit(ReduceSum(self.axes, self.keepdims), terms)
        count = math.prod(x.type.shape[axis] for axis in self.axes)
        return narrowed(b, b.emit(Div(), total, scalar(b, count, terms)), x)


@op("reduce_max")
class ReduceMax(Extreme):
    """The maximum along axes; NaN if any is NaN; the smallest value of the type if empty."""

    def evaluate(self, x: Array) -> Array:
        """NumPy's max."""
        return x.max(self.axes, keepdims=self.keepdims, initial=_limits(x)[0])


@op("reduce_min")
class ReduceMin(Extreme):
    """The minimum along axes; NaN if any is NaN; the largest value of the type if empty."""

    def evaluate(self, x: Array) -> Array:
        """NumPy's min."""
        return x.min(self.axes, keepdims=self.keepdims, initial=_limits(x)[1])

    def lower(self, b: Builder, x: Value) -> Value:
        """The largest in the reversed order; x itself if nothing is reduced."""
        if not self.axes:
            return x
        largest = b.emit(ReduceMax(self.axes, self.keepdims), order_reversed(b, widened(b, x)))
        return narrowed(b, order_reversed(b, largest), x)


@op("reduce_prod")
class ReduceProd(Reduction):
    """The product along axes; 1 if empty."""

    def evaluate(self, x: Array) -> Array:
        """NumPy's product, in the type of the elements."""
        return x.prod(self.axes, dtype=x.dtype, keepdims=self.keepdims)

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """Times the product of the others: of those before and of those after."""
        axes = normal_axes(self.axes, x.type)
        kept = tuple(axis for axis in range(x.type.rank) if axis not in axes)
        perm, last = (*kept, *axes), len(kept)
        count = math.prod(x.type.shape[axis] for axis in axes)
        moved = b.emit(Transpose(perm), x)
        lines = b.emit(Reshape((*taken(x.type.shape, kept), count)), moved)
        before = b.emit(CumProd(last, exclusive=True), lines)
        after = b.emit(CumProd(last, exclusive=True, reverse=True), lines)
        others = b.emit(Reshape(moved.type.shape), b.emit(Mul(), before, after))
        back = tuple(perm.index(axis) for axis in range(x.type.rank))
        return (b.emit(Mul(), self.apart(b, grad, x), b.emit(Transpose(back), others)),)


@dataclass(frozen=True, repr=False)
class Running(Op):
    """Base: each element combined with those before it along an axis.

    `exclusive` leaves the element itself out, `reverse` starts from the end.
    """

    axis: int = 0
    exclusive: bool = False
    reverse: bool = False

    def infer(self, x: TensorType) -> TensorType:
        """The operand's own type."""
        require_number(x=x)
        normal_axis(self.axis, x)
        return x

    def permuted(self, perm: tuple[int, ...]) -> Op | None:
        """Along the same axis at its new place."""
        return replace(self, axis=perm.index(self.axis % len(perm)))

    def accumulated(self, x: Array, function: np.ufunc, neutral: int) -> Array:
        """The running results of a function."""
        rows = np.moveaxis(x, self.axis, 0)
        rows = rows[::-1] if self.reverse else rows
        if self.exclusive:
            first = np.full_like(rows[:1], neutral)
            rows = np.concatenate([first, rows[:-1]])
        found = function.accumulate(rows, 0, dtype=x.dtype)
        return np.moveaxis(found[::-1] if self.reverse else found, 0, self.axis)

    def scanned(self, b: Builder, x: Value, combine: Binary, neutral: int) -> Value:
        """Emit a scan that combines one slice along the axis after the other."""
        axis = normal_axis(self.axis, x.type)
        to_front = (axis, *(other for other in range(x.type.rank) if other != axis))
        rows = b.emit(Transpose(to_front), widened(b, x))
        rows = b.emit(flip(rows.type, 0), rows) if self.reverse else rows
        first = b.emit(Fill(rows.type.shape[1:], neutral, rows.type.dtype))

        def step(b: Builder, carried: Values, parts: Values, _: Values) -> tuple[Values, Values]:
            total = b.emit(combine, *carried, *parts)
            return [total], carried if self.exclusive else [total]

        _, found = emit_scan(b, rows.type.shape[0], step, [first], [rows])
        found = b.emit(flip(found.type, 0), found) if self.reverse else found
        back = tuple(to_front.index(other) for other in range(x.type.rank))
        return narrowed(b, b.emit(Transpose(back), found), x)


@op("cum_sum")
class CumSum(Running):
    """Running sums along an axis."""

    def evaluate(self, x: Array) -> Array:
        """Sums of the elements so far."""
        return self.accumulated(x, np.add, 0)

    def lower(self, b: Builder, x: Value) -> Value:
        """A scan of sums."""
        return self.scanned(b, x, Add(), 0)

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """Running sums from the other end."""
        return (b.emit(replace(self, reverse=not self.reverse), grad),)


@op("cum_prod")
class CumProd(Running):
    """Running products along an axis."""

    def evaluate(self, x: Array) -> Array:
        """Products of the elements so far."""
        return self.accumulated(x, np.multiply, 1)

    def lower(self, b: Builder, x: Value) -> Value:
        """A scan of products."""
        return self.scanned(b, x, Mul(), 1)

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """Element k has a part in result i, the product of the others there.

        For each k the axis is gone through with 1 in its place: no division, so that zeros are
        right too.
        """
        axis, shape = normal_axis(self.axis, x.type), x.type.shape
        count = shape[axis]
        one_each = b.emit(Reshape((*shape[:axis], 1, *shape[axis:])), x)
        square = (count, count, *(1 for _ in shape[axis + 1 :]))
        diagonal = np.eye(count, dtype=np.bool_).reshape(square)
        without = b.emit(Where(), b.constant(diagonal, "diagonal"), scalar(b, 1, x), one_each)
        others = b.emit(replace(self, axis=axis + 1), without)
        has_part = np.tri(count, k=-1 if self.exclusive else 0, dtype=np.bool_).T
        has_part = (has_part.T if self.reverse else has_part).reshape(square)
        slopes = b.emit(Where(), b.constant(has_part, "has_part"), others, scalar(b, 0, x))
        grads = b.emit(Reshape(one_each.type.shape), grad)
        parts = b.emit(Mul(), slopes, grads)
        return (b.emit(ReduceSum((axis + 1,), keepdims=False), parts),)


def emit_total(b: Builder, x: Value) -> Value:
    """The sum of all elements; that of each row first, which whatever computes them can join."""
    axes = tuple(range(x.type.rank))
    wide = [axis for axis in axes if x.type.shape[axis] != 1]
    if len(wide) > 1:
        x = b.emit(ReduceSum(tuple(axis for axis in axes if axis != wide[0])), x)
    return b.emit(ReduceSum(axes, keepdims=False), x)


def widened(b: Builder, x: Value) -> Value:
    """x in the type in which it is computed: f32 for narrower floats."""
    return b.emit(Cast(f32), x) if x.type.dtype.is_narrow_float else x


def narrowed(b: Builder, y: Value, x: Value) -> Value:
    """y in the element type of x, which `widened` left."""
    return y if y.type.dtype is x.type.dtype else b.emit(Cast(x.type.dtype), y)


def order_reversed(b: Builder, x: Value) -> Value:
    """x by a map that reverses the order of its type exactly and is its own inverse."""
    dtype = x.type.dtype
    if dtype.is_integer:
        return b.emit(Sub(), scalar(b, sum(dtype.limits), x), x)
    return b.emit(Not() if dtype is boolean else Neg(), x)


def _limits(x: Array) -> tuple[Any, Any]:
    """The least and the greatest element of a type."""
    dtype = DType.of(x.dtype)
    if dtype.kind is Kind.BOOL:
        return False, True
    return dtype.limits if dtype.is_integer else (-np.inf, np.inf)
