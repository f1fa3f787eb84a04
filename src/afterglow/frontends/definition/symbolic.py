"""Shape arithmetic with ranged extents: what small ops give where elements are expressions.

An element is a truth value, an integer that may be a `RangedExtent`, or in place of a float a
`Ratio`. What the bounds of dimensions do not decide raises `UndecidedExtentError`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

from afterglow.graph import Node, Op
from afterglow.graph.index_check import has_outside
from afterglow.ops import elementwise as e
from afterglow.ops.activation import Clip
from afterglow.ops.conversion import Cast
from afterglow.ops.indexing import Gather
from afterglow.ops.movement import Concat, Expand, Reshape, Slice, Tile, Transpose
from afterglow.ops.reduction import ReduceMax, ReduceMin, ReduceProd, ReduceSum, Reduction
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, DType
from afterglow.types.dtype import boolean
from afterglow.types.extent import (
    is_ranged,
    larger_extent,
    largest,
    smaller_extent,
    smallest,
    undecided,
)

_MOST_DENOMINATOR = 2**12
"""Floats are taken for ratios up to this denominator, so that products with extents are exact."""

_MOST_EXACT = 2**24
"""Integers up to this one are exact as floats of 32 bits."""


@dataclass(frozen=True)
class Ratio:
    """An extent divided by a positive number: what floats hold that follow from extents."""

    numerator: int
    denominator: int = 1

    def __add__(self, other: Ratio) -> Ratio:
        top = self.numerator * other.denominator + other.numerator * self.denominator
        return Ratio.of(top, self.denominator * other.denominator)

    def __neg__(self) -> Ratio:
        return Ratio(-self.numerator, self.denominator)

    def __sub__(self, other: Ratio) -> Ratio:
        return self + -other

    def __mul__(self, other: Ratio) -> Ratio:
        return Ratio.of(self.numerator * other.numerator, self.denominator * other.denominator)

    def __truediv__(self, other: Ratio) -> Ratio:
        if smallest(other.numerator) <= 0:
            raise undecided(f"a quotient by {other.numerator}", self.numerator, other.numerator)
        top, below = self.numerator * other.denominator, self.denominator * other.numerator
        exact = top % below if is_ranged(below) else 0
        if is_ranged(exact) or exact:
            raise undecided(f"the float {top} / {below}", top, below)
        return Ratio(top // below) if is_ranged(below) else Ratio.of(top, below)

    @staticmethod
    def of(numerator: int, denominator: int) -> Ratio:
        """The ratio in its lowest terms, as far as that can be seen."""
        if not is_ranged(numerator):
            lowest = Fraction(numerator, denominator)
            return Ratio(lowest.numerator, lowest.denominator)
        rest = numerator % denominator
        whole = not is_ranged(rest) and rest == 0
        return Ratio(numerator // denominator) if whole else Ratio(numerator, denominator)

    def floor(self) -> Ratio:
        """The largest integer that is not above it."""
        return Ratio(self.numerator // self.denominator)

    def ceil(self) -> Ratio:
        """The smallest integer that is not below it."""
        return Ratio(-(-self.numerator // self.denominator))

    def truncated(self) -> int:
        """The integer without its fraction."""
        return _truncated(self.numerator, self.denominator)


Element: TypeAlias = Any
"""A `bool`, an `int` or a `Ratio`: ops have operands of one kind."""


def elements_of(array: Array) -> Array | None:
    """The elements of a constant as this module has them; None if they are no such."""
    if array.dtype.kind in "biu":
        return objects(array.reshape(-1).tolist(), array.shape)
    if array.dtype.kind != "f" or not np.isfinite(array).all():
        return None
    ratios = [Fraction(float(x)) for x in array.reshape(-1)]
    if any(ratio.denominator > _MOST_DENOMINATOR for ratio in ratios):
        return None
    return objects([Ratio(r.numerator, r.denominator) for r in ratios], array.shape)


def exact_array(elements: Array, dtype: DType) -> Array | None:
    """Elements as a plain array; None if some depend on dimensions."""
    flat = elements.reshape(-1).tolist()
    if any(is_ranged(_numerator(x)) for x in flat):
        return None
    numbers = [x.numerator / x.denominator if isinstance(x, Ratio) else x for x in flat]
    return np.array(numbers, dtype.numpy).reshape(elements.shape)


def evaluate(node: Node, operands: Sequence[Array]) -> Array | None:
    """The elements of the result of a node, from those of its operands; None if it has no rule."""
    op, shape = node.op, node.results[0].type.shape
    if isinstance(op, (Reshape, Transpose, Expand, Concat, Slice, Tile)):
        return np.asarray(op.evaluate(*operands), np.object_)
    if isinstance(op, Gather):
        return _gathered(op, node, *operands)
    if type(op) in _REDUCTIONS:
        assert isinstance(op, Reduction)
        return _reduced(op, operands[0], _REDUCTIONS[type(op)])
    function = _elementwise(op, node)
    if function is None:
        return None
    wide = np.broadcast_arrays(*operands)
    each = zip(*(x.reshape(-1).tolist() for x in wide), strict=True)
    return objects((function(*elements) for elements in each), shape)


def objects(elements: Iterable[Element], shape: Sequence[int]) -> Array:
    """An array of elements."""
    flat = list(elements)
    array = np.empty(len(flat), np.object_)
    array[:] = flat
    return array.reshape(tuple(shape))


def whole(element: Element) -> int:
    """An element as an integer, without its fraction if it has one."""
    return element.truncated() if isinstance(element, Ratio) else element


def _numerator(element: Element) -> int:
    return element.numerator if isinstance(element, Ratio) else element


def _gathered(op: Gather, node: Node, data: Array, indices: Array) -> Array | None:
    places = exact_array(indices, node.given[1].type.dtype)
    types = [operand.type for operand in node.given]
    if places is None or has_outside(places, op.index_ranges(types)["indices"]):
        return None
    return np.asarray(op.evaluate(data, places), np.object_)


def _reduced(op: Reduction, x: Array, function: Callable[[Any, Any], Any]) -> Array:
    axes = [axis % x.ndim for axis in op.axes]
    for axis in sorted(axes, reverse=True):
        parts = [x.take([i], axis) for i in range(x.shape[axis])]
        each = zip(*(part.reshape(-1).tolist() for part in parts), strict=True)
        shape = (*x.shape[:axis], *((1,) if op.keepdims else ()), *x.shape[axis + 1 :])
        x = objects((reduce(function, elements) for elements in each), shape)
    return x


def _elementwise(op: Op, node: Node) -> Callable[..., Element] | None:
    """What computes an element of the result; None if there is no rule for the op."""
    match op:
        case Cast(dtype):
            return lambda x: _cast(x, dtype)
        case e.Mod(truncated):
            return lambda x, y: _remainder(x, y, truncated=truncated)
        case Clip(low, high):
            return lambda x: _clipped(_clipped(x, low, _larger), high, _smaller)
        case e.And() | e.Or() | e.Not() if node.results[0].type.dtype is not boolean:
            return None
    return _RULES.get(type(op))


def _divide(x: Any, y: Any) -> Element:
    """Floats as they are, integers rounded towards zero, and to 0 where the divisor is 0."""
    if isinstance(x, Ratio):
        return x / y
    if not is_ranged(y) and y == 0:
        return 0
    return _truncated(-x, -y) if largest(y) < 0 else _truncated(x, y)


def _truncated(x: int, y: int) -> int:
    """The quotient by a positive number, rounded towards zero."""
    if smallest(y) <= 0:
        raise undecided(f"whether {y} is 0", y)
    if smallest(x) >= 0:
        return x // y
    if largest(x) <= 0:
        return -(-x // y)
    raise undecided(f"whether {x} < 0", x)


def _remainder(x: Any, y: Any, *, truncated: bool) -> Element:
    if isinstance(x, Ratio) or smallest(y) <= 0:
        raise undecided(f"{x} % {y}", _numerator(x), _numerator(y))
    return x - y * _truncated(x, y) if truncated else x % y


def _cast(x: Any, dtype: DType) -> Element:
    if dtype.is_float:
        if largest(_numerator(x)) > _MOST_EXACT:
            raise undecided(f"the float {_numerator(x)}", _numerator(x))
        return x if isinstance(x, Ratio) else Ratio(int(x) if isinstance(x, bool) else x)
    if dtype is boolean:
        return not _equal(_numerator(x), 0)
    if isinstance(x, Ratio):
        x = x.truncated()
    low, high = dtype.limits
    if not low <= smallest(x) <= largest(x) <= high:
        raise undecided(f"whether {x} fits {dtype}", x)
    return int(x) if isinstance(x, bool) else x


def _difference(x: Any, y: Any) -> int:
    return _numerator(x - y) if isinstance(x, Ratio) else x - y


def _equal(x: Any, y: Any) -> bool:
    difference = _difference(x, y)
    if smallest(difference) <= 0 <= largest(difference) and is_ranged(difference):
        raise undecided(f"whether {_numerator(x)} is {_numerator(y)}", difference)
    return not is_ranged(difference) and difference == 0


def _less(x: Any, y: Any) -> bool:
    return _difference(x, y) < 0


def _smaller(x: Any, y: Any) -> Element:
    if isinstance(x, Ratio):
        return y if _less(y, x) else x
    return smaller_extent(x, y)


def _larger(x: Any, y: Any) -> Element:
    if isinstance(x, Ratio):
        return y if _less(x, y) else x
    return larger_extent(x, y)


def _clipped(x: Any, bound: float | None, choose: Callable[[Any, Any], Element]) -> Element:
    if bound is None:
        return x
    ratio = Fraction(bound)
    limit = Ratio(ratio.numerator, ratio.denominator)
    return choose(x, limit if isinstance(x, Ratio) else limit.truncated())


_RULES: dict[type[Op], Callable[..., Element]] = {
    e.Add: operator.add,
    e.Sub: operator.sub,
    e.Mul: operator.mul,
    e.Div: _divide,
    e.Neg: operator.neg,
    e.Min: _smaller,
    e.Max: _larger,
    e.Floor: Ratio.floor,
    e.Ceil: Ratio.ceil,
    e.Equal: _equal,
    e.Less: _less,
    e.LessEqual: lambda x, y: not _less(y, x),
    e.And: lambda x, y: x and y,
    e.Or: lambda x, y: x or y,
    e.Not: operator.not_,
    e.Where: lambda condition, then, other: then if condition else other,
}
"""By op, what an element of the result is."""

_REDUCTIONS: dict[type[Op], Callable[[Any, Any], Element]] = {
    ReduceSum: operator.add,
    ReduceProd: operator.mul,
    ReduceMax: _larger,
    ReduceMin: _smaller,
}
