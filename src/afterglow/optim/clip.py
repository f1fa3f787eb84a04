"""Clipping: gradients kept from being too large, before they reach an optimizer.

The limit is a number, or a scalar of the run. One reduction for each gradient and one scalar factor
are all that a global norm costs: the factor fuses into the updates of the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from afterglow.graph import Builder, Value
from afterglow.ops.arithmetic import Arithmetic
from afterglow.ops.elementwise import Max, Min, Neg
from afterglow.ops.functions import Sqrt
from afterglow.ops.reduction import emit_total
from afterglow.support.checks import check_above_zero
from afterglow.support.errors import UsageError

TINY = 1e-6
"""Added to a norm before it divides, as PyTorch does."""


def clip_by_value(
    b: Builder, gradients: Sequence[Value], limit: float | Value
) -> tuple[Value, ...]:
    """Each element limited to the range from -limit to limit."""
    _check(limit)
    return tuple(_clipped(Arithmetic(b, gradient), gradient, limit) for gradient in gradients)


def clip_by_global_norm(
    b: Builder, gradients: Sequence[Value], limit: float | Value
) -> tuple[tuple[Value, ...], Value]:
    """All gradients by one factor smaller if their common norm is above the limit; and that norm.

    The norm is the root of the sum of the squares of all elements of all gradients.
    """
    _check(limit)
    if not gradients:
        raise UsageError("clip_by_global_norm needs at least one gradient")
    a = Arithmetic(b, gradients[0])
    squares = [_sum_of_squares(b, gradient) for gradient in gradients]
    norm = b.emit(Sqrt(), reduce(a.add, squares))
    factor = b.emit(Min(), a.div(limit, a.add(norm, TINY)), a.value(1.0))
    return tuple(a.mul(gradient, factor) for gradient in gradients), norm


def _check(limit: float | Value) -> None:
    if not isinstance(limit, Value):
        check_above_zero("clipping", "the limit", limit)


def _clipped(a: Arithmetic, x: Value, limit: float | Value) -> Value:
    if isinstance(limit, Value):
        low: Value | float = a.b.emit(Neg(), limit)
    else:
        low = -limit
    return a.b.emit(Min(), a.b.emit(Max(), x, a.value(low)), a.value(limit))


def _sum_of_squares(b: Builder, x: Value) -> Value:
    return emit_total(b, Arithmetic(b, x).mul(x, x))
