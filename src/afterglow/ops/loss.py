"""Losses: how far results are from their targets, as one number or one for each element."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

import numpy as np

from afterglow.graph import Builder, Gradients, Op, Value, op
from afterglow.ops.activation import Clip, Sigmoid, Softplus
from afterglow.ops.arithmetic import Arithmetic
from afterglow.ops.elementwise import Abs, Neg, Sign, scalar
from afterglow.ops.reduction import emit_total, narrowed, widened
from afterglow.ops.rules import (
    broadcast_shape,
    require,
    require_float,
    require_same_dtype,
    require_shape,
)
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, TensorType


class LossReduction(Enum):
    """What becomes of the losses of all elements."""

    MEAN = "mean"
    SUM = "sum"
    NONE = "none"

    def type_of(self, each: TensorType) -> TensorType:
        """A scalar, or what each element has."""
        return each if self is LossReduction.NONE else each.with_shape(())

    def of(self, each: Array) -> Array:
        """The mean, the sum, or the losses themselves."""
        if self is LossReduction.NONE:
            return each
        total = each.sum(dtype=each.dtype)
        return np.asarray(total / each.size if self is LossReduction.MEAN else total)

    def emit(self, b: Builder, each: Value) -> Value:
        """The same, of a value."""
        if self is LossReduction.NONE:
            return each
        total = emit_total(b, widened(b, each))
        if self is LossReduction.MEAN:
            total = Arithmetic(b, total).div(total, scalar(b, each.type.size, total))
        return narrowed(b, total, each)

    def emit_back(self, b: Builder, grad: Value, each: TensorType) -> Value:
        """The gradient of each loss: a scalar that broadcasts, or one for each."""
        if self is not LossReduction.MEAN:
            return grad
        return Arithmetic(b, grad).div(grad, scalar(b, each.size, grad))


@dataclass(frozen=True, repr=False)
class DifferenceLoss(Op):
    """Base: a function of x - target, element by element, then reduced."""

    reads_once: ClassVar[tuple[str, ...]] = ("x", "target")
    reduction: LossReduction = LossReduction.MEAN

    def infer(self, x: TensorType, target: TensorType) -> TensorType:
        """A scalar, or the type of x."""
        require_float(x=x)
        require_same_dtype(x=x, target=target)
        require_shape(x.shape, target=target)
        return self.reduction.type_of(x)

    def evaluate(self, x: Array, target: Array) -> Array:
        """By the definition."""
        return self.reduction.of(self.of_difference(x - target))

    def lower(self, b: Builder, x: Value, target: Value) -> Value:
        """As `evaluate`, from primitive ops."""
        a = Arithmetic(b, x)
        return self.reduction.emit(b, self.emit_loss(a, a.sub(x, target)))

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value, target: Value) -> Gradients:
        """grad times the slope, once the difference is known again; to the target negated."""
        a = Arithmetic(b, x)
        each = self.reduction.emit_back(b, grad, x.type)
        back = self.emit_slope(a, a.sub(x, target), each)
        return back, b.emit(Neg(), back)

    def of_difference(self, difference: Array) -> Array:
        """The loss of each element."""
        raise NotImplementedError

    def emit_loss(self, a: Arithmetic, difference: Value) -> Value:
        """The same, of a value."""
        raise NotImplementedError

    def emit_slope(self, a: Arithmetic, difference: Value, grad: Value) -> Value:
        """The derivative of the loss of each element, times grad."""
        raise NotImplementedError


@op("mse")
class MSE(DifferenceLoss):
    """Squared error: (x - target)²."""

    def of_difference(self, difference: Array) -> Array:
        """The square."""
        return np.square(difference)

    def emit_loss(self, a: Arithmetic, difference: Value) -> Value:
        """The square."""
        return a.mul(difference, difference)

    def emit_slope(self, a: Arithmetic, difference: Value, grad: Value) -> Value:
        """Twice the difference."""
        return a.mul(difference, a.mul(grad, 2.0))


@op("l1")
class L1(DifferenceLoss):
    """Absolute error: |x - target|."""

    def of_difference(self, difference: Array) -> Array:
        """Its size."""
        return np.abs(difference)

    def emit_loss(self, a: Arithmetic, difference: Value) -> Value:
        """Its size."""
        return a.b.emit(Abs(), difference)

    def emit_slope(self, a: Arithmetic, difference: Value, grad: Value) -> Value:
        """Its sign; none where there is no error."""
        return a.mul(a.b.emit(Sign(), difference), grad)


@op("huber")
class Huber(DifferenceLoss):
    """(x - target)² / 2 of errors up to delta; beyond, a line: delta (|x - target| - delta / 2)."""

    delta: float = 1.0

    def infer(self, x: TensorType, target: TensorType) -> TensorType:
        """A scalar, or the type of x."""
        require(self.delta > 0, f"delta must be above 0, got {self.delta}")
        return super().infer(x, target)

    def of_difference(self, difference: Array) -> Array:
        """Near the target its square, else its size."""
        near = np.clip(difference, -self.delta, self.delta)
        return near * (difference - near * 0.5)

    def emit_loss(self, a: Arithmetic, difference: Value) -> Value:
        """The limited difference c: c (difference - c / 2), which is both."""
        near = a.b.emit(Clip(-self.delta, self.delta), difference)
        return a.mul(near, a.sub(difference, a.mul(near, 0.5)))

    def emit_slope(self, a: Arithmetic, difference: Value, grad: Value) -> Value:
        """The limited difference."""
        return a.mul(a.b.emit(Clip(-self.delta, self.delta), difference), grad)


@op("binary_cross_entropy")
class BinaryCrossEntropy(Op):
    """-target log p - (1 - target) log(1 - p) with p = sigmoid(x), for logits x.

    `pos_weight` multiplies the first term and `weight` the whole; both broadcast to x. A mean is
    over all elements, whatever they weigh.
    """

    reduction: LossReduction = LossReduction.MEAN

    def infer(
        self,
        x: TensorType,
        target: TensorType,
        weight: TensorType | None = None,
        pos_weight: TensorType | None = None,
    ) -> TensorType:
        """A scalar, or the type of x."""
        require_float(x=x)
        given = {"weight": weight, "pos_weight": pos_weight}
        operands = {"x": x, "target": target, **{n: t for n, t in given.items() if t is not None}}
        require_same_dtype(**operands)
        require_shape(x.shape, target=target)
        shape = broadcast_shape(**operands)
        require(shape == x.shape, f"weights must broadcast to x {x}, got shape {shape}")
        return self.reduction.type_of(x)

    def evaluate(
        self,
        x: Array,
        target: Array,
        weight: Array | None = None,
        pos_weight: Array | None = None,
    ) -> Array:
        """By logarithms that do not overflow: log p = -softplus(-x) = x - softplus(x)."""
        factor = 1 if pos_weight is None else 1 + (pos_weight - 1) * target
        each = (1 - target) * x + factor * np.logaddexp(0, -x)
        return self.reduction.of(np.asarray(each if weight is None else each * weight))

    def lower(
        self,
        b: Builder,
        x: Value,
        target: Value,
        weight: Value | None = None,
        pos_weight: Value | None = None,
    ) -> Value:
        """As `evaluate`; without pos_weight, softplus(x) - target x."""
        a = Arithmetic(b, x)
        each = self._emit_loss(a, x, target, pos_weight)
        return self.reduction.emit(b, each if weight is None else a.mul(each, weight))

    def gradient(
        self,
        b: Builder,
        out: Value,
        grad: Value,
        x: Value,
        target: Value,
        weight: Value | None = None,
        pos_weight: Value | None = None,
    ) -> Gradients:
        """To x, (p - target) grad; to the others what their factors are."""
        a = Arithmetic(b, x)
        plain = self.reduction.emit_back(b, grad, x.type)
        each = plain if weight is None else a.mul(weight, plain)
        p = b.emit(Sigmoid(), x)
        to_weight = a.mul(plain, self._emit_loss(a, x, target, pos_weight))
        if pos_weight is None:
            slope = a.sub(p, target)
            return a.mul(slope, each), a.mul(b.emit(Neg(), x), each), to_weight, None
        slope = a.sub(a.mul(_factor(a, target, pos_weight), a.sub(p, 1.0)), a.sub(target, 1.0))
        surprise = a.mul(b.emit(Softplus(), b.emit(Neg(), x)), each)
        to_target = a.sub(a.mul(a.sub(pos_weight, 1.0), surprise), a.mul(x, each))
        return a.mul(slope, each), to_target, to_weight, a.mul(target, surprise)

    def _emit_loss(self, a: Arithmetic, x: Value, target: Value, pos_weight: Value | None) -> Value:
        if pos_weight is None:
            return a.sub(a.b.emit(Softplus(), x), a.mul(target, x))
        surprise = a.b.emit(Softplus(), a.b.emit(Neg(), x))
        return a.add(a.mul(a.sub(1.0, target), x), a.mul(_factor(a, target, pos_weight), surprise))


def _factor(a: Arithmetic, target: Value, pos_weight: Value) -> Value:
    """The weight of -log p: pos_weight for target 1, and 1 for target 0."""
    return a.add(a.mul(a.sub(pos_weight, 1.0), target), 1.0)
