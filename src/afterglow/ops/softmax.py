"""Softmax and its kin: all of an axis decides each element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from afterglow.graph import Builder, Gradients, Op, Value, op
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Div, Equal, Mul, Sub
from afterglow.ops.functions import Exp, Log
from afterglow.ops.indexing import Iota
from afterglow.ops.reduction import ReduceMax, ReduceSum
from afterglow.ops.rules import normal_axis, require_float
from afterglow.ops.search import ArgMax
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, TensorType
from afterglow.types import dtype as d


def _less_peak(x: Array, axis: int) -> Array:
    """x minus its largest along the axis, so that no exponential overflows."""
    return np.asarray(x - np.max(x, axis, keepdims=True, initial=-np.inf))


@dataclass(frozen=True, repr=False)
class AlongAxis(Op):
    """Base: a result of the operand's type, each line along `axis` by itself, floats only."""

    reads_once = ("x",)
    axis: int = -1

    def infer(self, x: TensorType) -> TensorType:
        """The operand's own type; only floats, and only along an axis it has."""
        require_float(x=x)
        normal_axis(self.axis, x)
        return x

    def parallel(
        self, axis: int, result: TensorType, operands: Sequence[TensorType | None]
    ) -> tuple[int | None, ...] | None:
        """Every axis but the one."""
        return None if axis == self.axis % result.rank else (axis,)

    def permuted(self, perm: tuple[int, ...]) -> Self:
        """Along the place where the axis went."""
        return replace(self, axis=perm.index(self.axis % len(perm)))


@op("softmax")
class Softmax(AlongAxis):
    """Exponentials scaled to sum to one along an axis: exp(x) / sum(exp(x))."""

    inplace = ("x",)

    def evaluate(self, x: Array) -> Array:
        """Subtract the largest first, so that no exponential overflows."""
        e = np.exp(_less_peak(x, self.axis))
        return e / e.sum(self.axis, keepdims=True)

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """out (grad - sum(grad out))."""
        total = b.emit(ReduceSum((normal_axis(self.axis, x.type),)), b.emit(Mul(), grad, out))
        return (b.emit(Mul(), out, b.emit(Sub(), grad, total)),)

    def lower(self, b: Builder, x: Value) -> Value:
        """As `evaluate`, from primitive ops."""
        axes = (normal_axis(self.axis, x.type),)
        e = b.emit(Exp(), b.emit(Sub(), x, b.emit(ReduceMax(axes), x)))
        return b.emit(Div(), e, b.emit(ReduceSum(axes), e))


@op("log_softmax")
class LogSoftmax(AlongAxis):
    """Logarithm of the softmax: x - log(sum(exp(x)))."""

    inplace = ("x",)

    def evaluate(self, x: Array) -> Array:
        """Subtract the largest first, so that no exponential overflows."""
        shifted = _less_peak(x, self.axis)
        return shifted - np.log(np.exp(shifted).sum(self.axis, keepdims=True))

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """grad - exp(out) sum(grad)."""
        total = b.emit(ReduceSum((normal_axis(self.axis, x.type),)), grad)
        return (b.emit(Sub(), grad, b.emit(Mul(), b.emit(Exp(), out), total)),)

    def lower(self, b: Builder, x: Value) -> Value:
        """As `evaluate`, from primitive ops."""
        axes = (normal_axis(self.axis, x.type),)
        shifted = b.emit(Sub(), x, b.emit(ReduceMax(axes), x))
        total = b.emit(ReduceSum(axes), b.emit(Exp(), shifted))
        return b.emit(Sub(), shifted, b.emit(Log(), total))


@op("hardmax")
class Hardmax(AlongAxis):
    """1 at the first largest element along an axis, 0 elsewhere."""

    def evaluate(self, x: Array) -> Array:
        """Compare places with the place of the largest."""
        if not x.size:
            return x
        axis = self.axis % x.ndim
        places = np.arange(x.shape[axis]).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
        return (places == np.argmax(x, axis, keepdims=True)).astype(x.dtype)

    def lower(self, b: Builder, x: Value) -> Value:
        """As `evaluate`, from primitive ops."""
        axis = normal_axis(self.axis, x.type)
        shape = tuple(extent if i == axis else 1 for i, extent in enumerate(x.type.shape))
        places = b.emit(Iota(shape, axis, d.i64))
        largest = b.emit(ArgMax(axis), x)
        return b.emit(Cast(x.type.dtype), b.emit(Equal(), places, largest))
