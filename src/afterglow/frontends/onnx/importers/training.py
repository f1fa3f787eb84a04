"""ONNX's optimizers, which are arithmetic: each takes tensors, their gradients, and its state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from afterglow.frontends.onnx.context import NodeContext
from afterglow.frontends.onnx.importers.conversion import as_dtype
from afterglow.frontends.onnx.order import TRAINING_DOMAIN
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.ops import elementwise as e
from afterglow.ops.functions import Sqrt
from afterglow.ops.power import Pow
from afterglow.support.errors import ModelError


class _Arithmetic:
    """Emits arithmetic on one tensor; plain numbers become constants of its element type."""

    def __init__(self, n: NodeContext, like: Value) -> None:
        self.n = n
        self.dtype = like.type.dtype

    def value(self, x: Value | float) -> Value:
        if isinstance(x, Value):
            return as_dtype(self.n, x, self.dtype)
        return self.n.constant(np.array(x, self.dtype.numpy))

    def add(self, x: Value | float, y: Value | float) -> Value:
        return self.n.emit(e.Add(), self.value(x), self.value(y))

    def sub(self, x: Value | float, y: Value | float) -> Value:
        return self.n.emit(e.Sub(), self.value(x), self.value(y))

    def mul(self, x: Value | float, y: Value | float) -> Value:
        return self.n.emit(e.Mul(), self.value(x), self.value(y))

    def div(self, x: Value | float, y: Value | float) -> Value:
        return self.n.emit(e.Div(), self.value(x), self.value(y))

    def power(self, x: float, y: Value) -> Value:
        return self.n.emit(Pow(), self.value(x), self.value(y))

    def sqrt(self, x: Value) -> Value:
        return self.n.emit(Sqrt(), x)

    def if_positive(self, count: Value, x: Value | float, y: Value | float) -> Value:
        """x after the first update, y for it."""
        zero = self.n.constant(np.zeros((), count.type.dtype.numpy))
        return self.n.emit(
            e.Where(), self.n.emit(e.Less(), zero, count), self.value(x), self.value(y)
        )

    def regularized(self, x: Value, gradient: Value) -> Value:
        """The gradient with that of norm_coefficient / 2 times the squared norm of x."""
        return self.add(self.mul(x, self.n.number("norm_coefficient", 0.0)), gradient)


def _for_each(
    n: NodeContext, parts: int, update: Callable[..., tuple[Value, ...]]
) -> Sequence[Value]:
    """Update each tensor with its gradient and state; the results of one kind stand together."""
    values = list(n.values())
    rest = values[2:]
    tensors, left = divmod(len(rest), parts)
    if left or not tensors:
        raise ModelError(f"it takes {parts} values for each tensor, and has {len(rest)} in all")
    rate, count = values[:2]
    columns = [
        update(_Arithmetic(n, rest[i]), rate, count, *rest[i::tensors]) for i in range(tensors)
    ]
    return [value for kind in zip(*columns, strict=True) for value in kind]


@onnx_op("Adagrad", domain=TRAINING_DOMAIN)
def adagrad(n: NodeContext) -> Sequence[Value]:
    """x - rate * g / sqrt(sum of g**2), where the rate may decay."""
    return _for_each(n, 3, partial(_adagrad, n))


def _adagrad(
    n: NodeContext, a: _Arithmetic, rate: Value, count: Value, x: Value, g: Value, squares: Value
) -> tuple[Value, Value]:
    decay = a.add(a.mul(count, n.number("decay_factor", 0.0)), 1.0)
    gradient = a.regularized(x, g)
    total = a.add(squares, a.mul(gradient, gradient))
    divisor = a.add(a.sqrt(total), n.number("epsilon", 1e-6))
    step = a.div(a.mul(a.div(rate, decay), gradient), divisor)
    return a.sub(x, step), total


@onnx_op("Adam", domain=TRAINING_DOMAIN)
def adam(n: NodeContext) -> Sequence[Value]:
    """x - rate * mean of g / sqrt(mean of g**2), with the bias of both means taken out."""
    return _for_each(n, 4, partial(_adam, n))


def _adam(
    n: NodeContext,
    a: _Arithmetic,
    rate: Value,
    count: Value,
    x: Value,
    g: Value,
    mean: Value,
    squares: Value,
) -> tuple[Value, Value, Value]:
    alpha, beta = n.number("alpha", 0.9), n.number("beta", 0.999)
    gradient = a.regularized(x, g)
    mean = a.add(a.mul(mean, alpha), a.mul(gradient, 1 - alpha))
    squares = a.add(a.mul(squares, beta), a.mul(a.mul(gradient, gradient), 1 - beta))
    unbiased = a.div(
        a.mul(rate, a.sqrt(a.sub(1.0, a.power(beta, count)))), a.sub(1.0, a.power(alpha, count))
    )
    rate = a.if_positive(count, unbiased, rate)
    divisor = a.add(a.sqrt(squares), n.number("epsilon", 1e-6))
    moved = a.sub(x, a.div(a.mul(rate, mean), divisor))
    return a.mul(moved, 1 - n.number("norm_coefficient_post", 0.0)), mean, squares


@onnx_op("Momentum", domain=TRAINING_DOMAIN)
def momentum(n: NodeContext) -> Sequence[Value]:
    """x - rate * momentum, or Nesterov's look ahead of it."""
    return _for_each(n, 3, partial(_momentum, n))


def _momentum(
    n: NodeContext, a: _Arithmetic, rate: Value, count: Value, x: Value, g: Value, last: Value
) -> tuple[Value, Value]:
    alpha, gradient = n.number("alpha"), a.regularized(x, g)
    beta = a.if_positive(count, n.number("beta"), 1.0)
    moved = a.add(a.mul(last, alpha), a.mul(beta, gradient))
    is_nesterov = n.text("mode") == "nesterov"
    direction = a.add(gradient, a.mul(moved, alpha)) if is_nesterov else moved
    return a.sub(x, a.mul(rate, direction)), moved
