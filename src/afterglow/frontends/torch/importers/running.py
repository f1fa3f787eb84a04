"""Running sums, products and extremes along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.movement import counts, expanded, integer_constant, padded
from afterglow.frontends.torch.importers.elementwise import log_add, name_of
from afterglow.frontends.torch.importers.operands import as_result, axis_of, number
from afterglow.frontends.torch.node import TorchNode
from afterglow.frontends.torch.registry import aten
from afterglow.graph import Value
from afterglow.ops import elementwise as e
from afterglow.ops.movement import slice_axis
from afterglow.ops.reduction import CumProd, CumSum
from afterglow.types.dtype import boolean, i64, u8
from afterglow.types.extent import largest

Combine: TypeAlias = Callable[[Sequence[Value], Sequence[Value]], Sequence[Value]]
"""What two neighbouring stretches give together, the left one first."""


@aten("cumsum", "cumprod")
def running(n: TorchNode) -> Value:
    """Sums or products, in the type of the result."""
    (x,) = as_result(n, "self")
    if not x.type.rank:
        return x
    op = CumSum if name_of(n) == "cumsum" else CumProd
    return n.emit(op(axis_of(n, "dim", x.type.rank)), x)


@aten("logcumsumexp")
def logcumsumexp(n: TorchNode) -> Value:
    """log(cumsum(exp(x)))."""
    (x,) = as_result(n, "self")
    if not x.type.rank:
        return x
    axis = axis_of(n, "dim", x.type.rank)
    nothing = number(n, float("-inf"), x.type.dtype)
    (found,) = doubled(n, [x], axis, [nothing], lambda old, new: [log_add(n, old[0], new[0])])
    return found


@aten("cummax", "cummin")
def running_extreme(n: TorchNode) -> tuple[Value, Value]:
    """The extreme so far, and where it last was; NaN counts as beyond all."""
    x = n.value("self")
    if not x.type.rank:
        return x, integer_constant(n, 0)
    axis, dtype = axis_of(n, "dim", x.type.rank), x.type.dtype
    ordered = as_dtype(n, x, u8) if dtype is boolean else x
    places = expanded(n, counts(n, x.type.shape, axis), x.type.shape)
    is_max = name_of(n) == "cummax"

    def combine(old: Sequence[Value], new: Sequence[Value]) -> Sequence[Value]:
        low, high = (new[0], old[0]) if is_max else (old[0], new[0])
        stays = n.emit(e.Less(), low, high)
        if dtype.is_float:
            broken, fresh = (n.emit(e.IsNaN(), each) for each in (old[0], new[0]))
            stays = n.emit(e.Or(), stays, broken)
            stays = n.emit(e.And(), stays, n.emit(e.Not(), fresh))
        none = n.emit(e.Less(), old[1], number(n, 0, i64))
        stays = n.emit(e.And(), stays, n.emit(e.Not(), none))
        return [n.emit(e.Where(), stays, *each) for each in zip(old, new, strict=True)]

    blank = [number(n, 0, ordered.type.dtype), number(n, -1, i64)]
    values, indices = doubled(n, [ordered, places], axis, blank, combine)
    return as_dtype(n, values, dtype), indices


def doubled(
    n: TorchNode, parts: Sequence[Value], axis: int, blank: Sequence[Value], combine: Combine
) -> Sequence[Value]:
    """Combine all elements up to each one, over stretches that double in length.

    `blank` is what lies before the first element.
    """
    step = 1
    while step < largest(parts[0].type.shape[axis]):
        before = [_moved(n, x, axis, step, none) for x, none in zip(parts, blank, strict=True)]
        parts = combine(before, parts)
        step *= 2
    return parts


def _moved(n: TorchNode, x: Value, axis: int, step: int, blank: Value) -> Value:
    """x moved towards the end, with `blank` in front."""
    before = [step if at == axis else 0 for at in range(x.type.rank)]
    wide = padded(n, x, before, [0] * x.type.rank, value=blank)
    return n.emit(slice_axis(wide.type, axis, 0, x.type.shape[axis]), wide)
