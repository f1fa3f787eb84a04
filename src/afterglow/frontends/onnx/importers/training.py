"""ONNX's optimizers: each takes tensors, their gradients, and its state."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.definition.model import TRAINING_DOMAIN
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.ops.arithmetic import Arithmetic
from afterglow.ops.elementwise import Add, Less, Where
from afterglow.ops.functions import Sqrt
from afterglow.ops.movement import Reshape
from afterglow.ops.optimizer import (
    SGD,
    Adagrad,
    emit_bias,
    emit_moments,
    emit_quotient,
    emit_regularized,
)
from afterglow.support.errors import ModelError

Update = Callable[..., tuple[Value, ...]]


def _for_each(n: NodeContext, parts: int, update: Update) -> Sequence[Value]:
    """Update each tensor with its gradient and state; the results of one kind stand together."""
    values = list(n.values())
    rest = values[2:]
    tensors, left = divmod(len(rest), parts)
    if left or not tensors:
        raise ModelError(f"it takes {parts} values for each tensor, and has {len(rest)} in all")
    rate, count = (_scalar(n, value) for value in values[:2])
    columns = [
        update(as_dtype(n, rate, rest[i].type.dtype), count, *rest[i::tensors])
        for i in range(tensors)
    ]
    return [value for kind in zip(*columns, strict=True) for value in kind]


def _scalar(n: NodeContext, x: Value) -> Value:
    return n.emit(Reshape(()), x) if x.type.rank else x


def _next(n: NodeContext, count: Value) -> Value:
    """The number of this update, counted from 1; ONNX counts those before."""
    return n.emit(Add(), count, n.constant(np.ones((), count.type.dtype.numpy)))


@onnx_op("Adagrad", domain=TRAINING_DOMAIN)
def adagrad(n: NodeContext) -> Sequence[Value]:
    """x - rate * g / sqrt(sum of g**2), where the rate may decay."""
    decay, epsilon = n.number("decay_factor", 0.0), n.number("epsilon", 1e-6)
    op = Adagrad(decay, epsilon, n.number("norm_coefficient", 0.0))

    def update(rate: Value, count: Value, x: Value, g: Value, square: Value) -> tuple[Value, ...]:
        return n.emit_all(op, x, g, rate, _next(n, count), square)

    return _for_each(n, 3, update)


@onnx_op("Adam", domain=TRAINING_DOMAIN)
def adam(n: NodeContext) -> Sequence[Value]:
    """x - rate * mean of g / sqrt(mean of g**2), with the bias of both means taken out.

    Unlike PyTorch's, epsilon is added to the biased root, and the first update has no correction.
    """
    betas = n.number("alpha", 0.9), n.number("beta", 0.999)
    decay, after = n.number("norm_coefficient", 0.0), n.number("norm_coefficient_post", 0.0)

    def update(
        rate: Value, count: Value, x: Value, g: Value, mean: Value, square: Value
    ) -> tuple[Value, ...]:
        a = Arithmetic(n.builder, x)
        gradient = emit_regularized(a, x, g, decay)
        mean, square = emit_moments(a, gradient, mean, square, betas)
        root = n.emit(Sqrt(), emit_bias(a, count, betas[1]))
        unbiased = a.div(a.mul(rate, root), emit_bias(a, count, betas[0]))
        zero = n.constant(np.zeros((), count.type.dtype.numpy))
        rate = n.emit(Where(), n.emit(Less(), zero, count), unbiased, rate)
        move = emit_quotient(a, a.mul(rate, mean), square, n.number("epsilon", 1e-6))
        return a.mul(a.sub(x, move), 1 - after), mean, square

    return _for_each(n, 4, update)


@onnx_op("Momentum", domain=TRAINING_DOMAIN)
def momentum(n: NodeContext) -> Sequence[Value]:
    """x - rate * momentum, or Nesterov's look ahead of it."""
    is_nesterov = n.text("mode") == "nesterov"
    dampening, decay = 1 - n.number("beta"), n.number("norm_coefficient", 0.0)
    op = SGD(n.number("alpha"), dampening, is_nesterov, decay)

    def update(rate: Value, count: Value, x: Value, g: Value, last: Value) -> tuple[Value, ...]:
        return n.emit_all(op, x, g, rate, last, _next(n, count))

    return _for_each(n, 3, update)
