"""Optimizers: ops that move one weight against its gradient, and keep their own state with it.

All state has the type of the weight and begins at zero. The learning rate `lr` is a scalar of the
same element type, and `step` an integer scalar: the number of this update, counted from 1.
Formulas and names are those of PyTorch. Each op lowers to arithmetic that fuses into one loop; what
depends on `lr` and `step` alone is computed on scalars, once for all weights.
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np

from afterglow.graph import Builder, Op, Value, op
from afterglow.ops.arithmetic import Arithmetic
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Equal, Max, Neg, Sign, Where, scalar
from afterglow.ops.functions import Expm1, Sqrt
from afterglow.ops.rules import (
    require,
    require_float,
    require_integer,
    require_rank,
    require_same_dtype,
    require_shape,
)
from afterglow.types import Array, TensorType

T = TypeVar("T")


def _check(weight: TensorType, gradient: TensorType, lr: TensorType, **slots: TensorType) -> None:
    """The gradient and the state are like the weight, and the learning rate is a scalar."""
    require_float(weight=weight)
    require_same_dtype(weight=weight, gradient=gradient, lr=lr, **slots)
    require_shape(weight.shape, gradient=gradient, **slots)
    require_rank(0, lr=lr)


def _check_step(step: TensorType) -> None:
    require_integer(step=step)
    require_rank(0, step=step)


def _check_given(type: TensorType | None, name: str, wanted: bool, why: str) -> None:
    """An optional operand is given if the attributes ask for it, and only then."""
    is_fine = (type is not None) == wanted
    require(is_fine, f"{name} must {'' if wanted else 'not '}be given if {why}")


def emit_regularized(a: Arithmetic, weight: Value, gradient: Value, weight_decay: float) -> Value:
    """The gradient, plus that of weight_decay / 2 times the squared norm of the weight."""
    return a.add(gradient, a.mul(weight, weight_decay)) if weight_decay else gradient


def emit_shrunk(a: Arithmetic, weight: Value, lr: Value, weight_decay: float) -> Value:
    """weight * (1 - lr * weight_decay)."""
    if not weight_decay:
        return weight
    return a.mul(weight, a.sub(1.0, a.mul(lr, weight_decay)))


def emit_bias(a: Arithmetic, step: Value, beta: float) -> Value:
    """1 - beta ** step: the weight of all updates so far in an average that began at zero.

    The power is not taken: next to 1, its rounding would be most of the result.
    """
    if not beta:
        return a.value(1.0)
    exponent = a.mul(a.b.emit(Cast(a.like.type.dtype), step), math.log(beta))
    return a.b.emit(Neg(), a.b.emit(Expm1(), exponent))


def emit_moments(
    a: Arithmetic, gradient: Value, mean: Value, square: Value, betas: tuple[float, float]
) -> tuple[Value, Value]:
    """The running averages of the gradient and of its square, with this gradient."""
    mean = a.blend(mean, gradient, 1 - betas[0])
    squared = a.mul(a.mul(gradient, gradient), 1 - betas[1])
    return mean, a.add(a.mul(square, betas[1]), squared)


def emit_quotient(a: Arithmetic, x: Value, square: Value, eps: float) -> Value:
    """x / (sqrt(square) + eps)."""
    return a.div(x, a.add(a.b.emit(Sqrt(), square), eps))


def _given(*slots: T | None) -> tuple[T, ...]:
    return tuple(slot for slot in slots if slot is not None)


def _bias(step: Array, beta: float) -> float:
    return -math.expm1(float(step) * math.log(beta)) if beta else 1.0


def _blend(x: Array, y: Array, share: float) -> Array:
    return np.asarray(x + (y - x) * share)


@op("sgd")
class SGD(Op):
    """Gradient descent: weight - lr * gradient, or with momentum an average of gradients.

    With `nesterov`, it looks ahead along that average. The first gradient is never dampened, so
    that only `dampening` needs the number of the step.
    """

    result_names = ("weight", "velocity")
    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0

    def infer(
        self,
        weight: TensorType,
        gradient: TensorType,
        lr: TensorType,
        velocity: TensorType | None = None,
        step: TensorType | None = None,
    ) -> tuple[TensorType, ...]:
        """The type of the weight, twice if there is momentum."""
        if velocity is None:
            require(not self.momentum, "velocity must be given if there is momentum")
            _check(weight, gradient, lr)
            return (weight,)
        _check(weight, gradient, lr, velocity=velocity)
        if step is not None:
            _check_step(step)
        require(step is not None or not self.dampening, "step must be given if there is dampening")
        return weight, weight

    def evaluate(
        self,
        weight: Array,
        gradient: Array,
        lr: Array,
        velocity: Array | None = None,
        step: Array | None = None,
    ) -> tuple[Array, ...]:
        """By the definition."""
        gradient = gradient + self.weight_decay * weight
        if velocity is None:
            return (weight - lr * gradient,)
        is_first = step is not None and step == 1
        share = 1.0 if is_first else 1 - self.dampening
        velocity = self.momentum * velocity + share * gradient
        ahead = gradient + self.momentum * velocity
        return weight - lr * (ahead if self.nesterov else velocity), velocity

    def lower(
        self,
        b: Builder,
        weight: Value,
        gradient: Value,
        lr: Value,
        velocity: Value | None = None,
        step: Value | None = None,
    ) -> tuple[Value, ...]:
        """As `evaluate`, from primitive ops."""
        a = Arithmetic(b, weight)
        gradient = emit_regularized(a, weight, gradient, self.weight_decay)
        if velocity is None:
            return (a.sub(weight, a.mul(lr, gradient)),)
        added = gradient
        if step is not None and self.dampening:
            is_first = b.emit(Equal(), step, scalar(b, 1, step))
            share = b.emit(Where(), is_first, a.value(1.0), a.value(1 - self.dampening))
            added = a.mul(share, gradient)
        velocity = a.add(a.mul(velocity, self.momentum), added)
        ahead = a.add(gradient, a.mul(velocity, self.momentum)) if self.nesterov else velocity
        return a.sub(weight, a.mul(lr, ahead)), velocity


@op("adam")
class Adam(Op):
    """Adam: running averages of the gradient and of its square give direction and scale.

    Both are freed of their bias towards zero. `weight_decay` is part of the gradient, or with
    `decoupled` (AdamW) shrinks the weight by itself.
    """

    result_names = ("weight", "mean", "square")
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    decoupled: bool = False

    def infer(
        self,
        weight: TensorType,
        gradient: TensorType,
        lr: TensorType,
        step: TensorType,
        mean: TensorType,
        square: TensorType,
    ) -> tuple[TensorType, TensorType, TensorType]:
        """The type of the weight, for each result."""
        _check(weight, gradient, lr, mean=mean, square=square)
        _check_step(step)
        return weight, weight, weight

    def evaluate(
        self, weight: Array, gradient: Array, lr: Array, step: Array, mean: Array, square: Array
    ) -> tuple[Array, Array, Array]:
        """By the definition."""
        if self.decoupled:
            weight = weight * (1 - lr * self.weight_decay)
        else:
            gradient = gradient + self.weight_decay * weight
        mean = _blend(mean, gradient, 1 - self.betas[0])
        square = self.betas[1] * square + (1 - self.betas[1]) * np.square(gradient)
        scale = np.sqrt(square) / math.sqrt(_bias(step, self.betas[1])) + self.eps
        return weight - lr / _bias(step, self.betas[0]) * mean / scale, mean, square

    def lower(
        self,
        b: Builder,
        weight: Value,
        gradient: Value,
        lr: Value,
        step: Value,
        mean: Value,
        square: Value,
    ) -> tuple[Value, Value, Value]:
        """As `evaluate`, with all that is the same for each element in two scalars."""
        a = Arithmetic(b, weight)
        if self.decoupled:
            weight = emit_shrunk(a, weight, lr, self.weight_decay)
        else:
            gradient = emit_regularized(a, weight, gradient, self.weight_decay)
        mean, square = emit_moments(a, gradient, mean, square, self.betas)
        root = b.emit(Sqrt(), emit_bias(a, step, self.betas[1]))
        rate = a.div(a.mul(lr, root), emit_bias(a, step, self.betas[0]))
        scale = a.add(b.emit(Sqrt(), square), a.mul(root, self.eps))
        return a.sub(weight, a.div(a.mul(rate, mean), scale)), mean, square


@op("adagrad")
class Adagrad(Op):
    """Adagrad: each element's step is divided by the root of the sum of its squared gradients."""

    result_names = ("weight", "square")
    lr_decay: float = 0.0
    eps: float = 1e-10
    weight_decay: float = 0.0

    def infer(
        self,
        weight: TensorType,
        gradient: TensorType,
        lr: TensorType,
        step: TensorType,
        square: TensorType,
    ) -> tuple[TensorType, TensorType]:
        """The type of the weight, for each result."""
        _check(weight, gradient, lr, square=square)
        _check_step(step)
        return weight, weight

    def evaluate(
        self, weight: Array, gradient: Array, lr: Array, step: Array, square: Array
    ) -> tuple[Array, Array]:
        """By the definition."""
        gradient = gradient + self.weight_decay * weight
        square = square + np.square(gradient)
        rate = lr / (1 + (float(step) - 1) * self.lr_decay)
        return weight - rate * gradient / (np.sqrt(square) + self.eps), square

    def lower(
        self, b: Builder, weight: Value, gradient: Value, lr: Value, step: Value, square: Value
    ) -> tuple[Value, Value]:
        """As `evaluate`, from primitive ops."""
        a = Arithmetic(b, weight)
        gradient = emit_regularized(a, weight, gradient, self.weight_decay)
        square = a.add(square, a.mul(gradient, gradient))
        if self.lr_decay:
            before = a.sub(b.emit(Cast(weight.type.dtype), step), 1.0)
            lr = a.div(lr, a.add(a.mul(before, self.lr_decay), 1.0))
        return a.sub(weight, emit_quotient(a, a.mul(lr, gradient), square, self.eps)), square


@op("rmsprop")
class RMSProp(Op):
    """RMSProp: each element's step is divided by the root of a running average of its squares.

    With `centered`, that is the variance of the gradient: the squared mean is taken off.
    """

    result_names = ("weight", "square", "velocity", "mean")
    alpha: float = 0.99
    eps: float = 1e-8
    momentum: float = 0.0
    centered: bool = False
    weight_decay: float = 0.0

    def infer(
        self,
        weight: TensorType,
        gradient: TensorType,
        lr: TensorType,
        square: TensorType,
        velocity: TensorType | None = None,
        mean: TensorType | None = None,
    ) -> tuple[TensorType, ...]:
        """The type of the weight, for each result: one for each state that is given."""
        why = f"momentum is {self.momentum}"
        _check_given(velocity, "velocity", bool(self.momentum), why)
        _check_given(mean, "mean", self.centered, f"centered is {self.centered}")
        optional = {"velocity": velocity, "mean": mean}
        slots = {name: type for name, type in optional.items() if type is not None}
        _check(weight, gradient, lr, square=square, **slots)
        return (weight,) * (2 + len(slots))

    def evaluate(
        self,
        weight: Array,
        gradient: Array,
        lr: Array,
        square: Array,
        velocity: Array | None = None,
        mean: Array | None = None,
    ) -> tuple[Array, ...]:
        """By the definition."""
        gradient = gradient + self.weight_decay * weight
        square = self.alpha * square + (1 - self.alpha) * np.square(gradient)
        mean = None if mean is None else _blend(mean, gradient, 1 - self.alpha)
        spread = square if mean is None else np.maximum(square - np.square(mean), 0)
        move = gradient / (np.sqrt(spread) + self.eps)
        if velocity is not None:
            move = velocity = self.momentum * velocity + move
        return _given(weight - lr * move, square, velocity, mean)

    def lower(
        self,
        b: Builder,
        weight: Value,
        gradient: Value,
        lr: Value,
        square: Value,
        velocity: Value | None = None,
        mean: Value | None = None,
    ) -> tuple[Value, ...]:
        """As `evaluate`, from primitive ops."""
        a = Arithmetic(b, weight)
        gradient = emit_regularized(a, weight, gradient, self.weight_decay)
        squared = a.mul(a.mul(gradient, gradient), 1 - self.alpha)
        square = a.add(a.mul(square, self.alpha), squared)
        mean = None if mean is None else a.blend(mean, gradient, 1 - self.alpha)
        spread = square
        if mean is not None:  # rounding must not make it negative
            spread = b.emit(Max(), a.sub(square, a.mul(mean, mean)), a.value(0.0))
        move = emit_quotient(a, gradient, spread, self.eps)
        if velocity is not None:
            move = velocity = a.add(a.mul(velocity, self.momentum), move)
        return _given(a.sub(weight, a.mul(lr, move)), square, velocity, mean)


@op("lion")
class Lion(Op):
    """Lion: each element moves by lr, to the side where a running average of the gradient points.

    `weight_decay` shrinks the weight by itself, as in AdamW.
    """

    result_names = ("weight", "mean")
    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = 0.0

    def infer(
        self, weight: TensorType, gradient: TensorType, lr: TensorType, mean: TensorType
    ) -> tuple[TensorType, TensorType]:
        """The type of the weight, for each result."""
        _check(weight, gradient, lr, mean=mean)
        return weight, weight

    def evaluate(
        self, weight: Array, gradient: Array, lr: Array, mean: Array
    ) -> tuple[Array, Array]:
        """By the definition."""
        side = np.sign(_blend(mean, gradient, 1 - self.betas[0]))
        shrunk = weight * (1 - lr * self.weight_decay)
        return shrunk - lr * side, _blend(mean, gradient, 1 - self.betas[1])

    def lower(
        self, b: Builder, weight: Value, gradient: Value, lr: Value, mean: Value
    ) -> tuple[Value, Value]:
        """As `evaluate`, from primitive ops."""
        a = Arithmetic(b, weight)
        side = b.emit(Sign(), a.blend(mean, gradient, 1 - self.betas[0]))
        shrunk = emit_shrunk(a, weight, lr, self.weight_decay)
        return a.sub(shrunk, a.mul(lr, side)), a.blend(mean, gradient, 1 - self.betas[1])
