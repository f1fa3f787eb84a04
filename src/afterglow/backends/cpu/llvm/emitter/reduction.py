"""Reductions of the lanes of a vector, always in the same order."""

from __future__ import annotations

from collections.abc import Callable
from operator import add, mul

from afterglow.backends.cpu.llvm.emitter.arithmetic import larger, maximum, minimum, smaller
from afterglow.backends.cpu.llvm.emitter.shuffle import part
from afterglow.backends.cpu.llvm.emitter.value import Value


def reduce(x: Value, function: Callable[[Value, Value], Value]) -> Value:
    """Combine all lanes: the upper half with the lower one, until a single lane is left.

    Of an odd number the last lane waits, and joins at the end.
    """
    waiting: list[Value] = []
    while x.lanes > 1:
        half, odd = divmod(x.lanes, 2)
        if odd:
            waiting.append(x.lane(x.lanes - 1))
        x = function(part(x, 0, half), part(x, half, half))
    for last in reversed(waiting):
        x = function(x, last)
    return x


def reduce_sum(x: Value) -> Value:
    """The sum of all lanes."""
    return reduce(x, add)


def reduce_product(x: Value) -> Value:
    """The product of all lanes."""
    return reduce(x, mul)


def reduce_max(x: Value, *, nan: bool = True) -> Value:
    """The largest lane; NaN if one is, unless `nan` says that there is none."""
    return reduce(x, maximum if nan else larger)


def reduce_min(x: Value, *, nan: bool = True) -> Value:
    """The smallest lane; NaN if one is, unless `nan` says that there is none."""
    return reduce(x, minimum if nan else smaller)


def any_lane(condition: Value) -> Value:
    """Whether a condition holds in any lane."""
    return _logical("or", condition)


def all_lanes(condition: Value) -> Value:
    """Whether a condition holds in all lanes."""
    return _logical("and", condition)


def _logical(name: str, condition: Value) -> Value:
    if condition.lanes == 1:
        return condition
    symbol = f"@llvm.vector.reduce.{name}.v{condition.lanes}i1"
    return condition.derive(f"call i1 {symbol}({condition.typed})", lanes=1)
