"""Recognise leaky rectifiers that exporters write as arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from afterglow.graph import Builder, Node, Value
from afterglow.ops.activation import LeakyRelu, PRelu, Relu
from afterglow.ops.elementwise import Abs, Add, Less, LessEqual, Max, Neg, Sub, Where
from afterglow.passes import RewritePass, rewrite
from afterglow.support.lazy_dataclass import dataclass
from afterglow.transforms.matching.patterns import (
    emit_as,
    ingredients,
    maker,
    orders,
    scalar_of,
    serves_only,
)
from afterglow.transforms.matching.polynomials import Polynomial, are_near, multiple_of, polynomial


@rewrite(Max)
def gather_leaky_maximum(node: Node, b: Builder) -> Value | None:
    """max(x, a x)  ->  leaky_relu(x)  for 0 < a < 1."""
    for x, other in orders(node):
        alpha = multiple_of(other, x)
        if alpha is not None and 0 < alpha < 1 and _fits(node, x):
            return b.emit(LeakyRelu(alpha), emit_as(b, x, node.result.type.dtype))
    return None


def _fits(node: Node, x: Value, *others: Value) -> bool:
    same = x.type.shape == node.result.type.shape and x.type.dtype.is_float
    return same and serves_only(node, [x, *others])


@rewrite(Where)
def gather_leaky_choice(node: Node, b: Builder) -> Value | None:
    """where(x < 0, a x, x)  ->  leaky_relu(x);  where(0 < x, x, a x)  ->  leaky_relu(x)."""
    condition, then, other = node.given
    comparison = maker(condition, Less, LessEqual)
    if comparison is None:
        return None
    lhs, rhs = comparison.given
    if scalar_of(rhs) == 0:
        x, low, high = lhs, then, other
    elif scalar_of(lhs) == 0:
        x, low, high = rhs, other, then
    else:
        return None
    alpha = multiple_of(low, x)
    if alpha is None or high is not x or not _fits(node, x):
        return None
    return b.emit(LeakyRelu(alpha), x)


@rewrite(Add, Sub)
def gather_prelu(node: Node, b: Builder) -> Value | None:
    """relu(x) - a relu(-x)  ->  prelu(x, a);  relu(x) + a (x - |x|) / 2  ->  prelu(x, a).

    Where a is a number: leaky_relu(x).
    """
    if not any(maker(operand, Relu) for operand in node.given):
        return None
    for parts in _halves(node.result):
        alpha = _slope_factor(node.result, parts)
        if alpha is not None and _fits(node, parts.x):
            return b.emit(LeakyRelu(alpha), emit_as(b, parts.x, node.result.type.dtype))
        slopes = [s for s in ingredients(node.result) if _is_slope(s, node)]
        for sign, slope in product((1, -1), slopes):
            factor = _slope_factor(node.result, parts, slope)
            if factor == sign and _fits(node, parts.x, slope):
                return _emit_prelu(b, node, parts.x, slope, sign)
    return None


@dataclass(frozen=True)
class _Halves:
    """relu(x), relu(-x) or |x|, and x."""

    positive: Value
    negative: Value
    absolute: bool
    x: Value


def _halves(value: Value) -> Iterator[_Halves]:
    found = [*ingredients(value)]
    for positive in found:
        relu = maker(positive, Relu)
        if relu is None:
            continue
        x = relu.given[0]
        for negative in found:
            node = maker(negative, Relu, Abs)
            absolute = node is not None and isinstance(node.op, Abs)
            if node is not None and multiple_of(node.given[0], x) == (1 if absolute else -1):
                yield _Halves(positive, negative, absolute, x)


def _slope_factor(value: Value, parts: _Halves, *slope: Value) -> float | None:
    """The number f for which the value is a leaky rectifier of slope f, or f times `slope`."""
    found = polynomial(value, parts.positive, parts.negative, parts.x, *slope) or {}
    none, one = (0.0,) * len(slope), (1.0,) * len(slope)
    factor = -found.get((0.0, 1.0, 0.0, *one), 0.0) * (2 if parts.absolute else 1)
    wanted: Polynomial = {(1.0, 0.0, 0.0, *none): 1.0, (0.0, 1.0, 0.0, *one): -factor}
    if parts.absolute:
        wanted[(0.0, 1.0, 0.0, *one)] = -factor / 2
        wanted[(0.0, 0.0, 1.0, *one)] = factor / 2
    return factor if are_near(found, wanted, value.type.dtype) else None


def _is_slope(slope: Value, node: Node) -> bool:
    """Whether it broadcasts to the shape of the node's result."""
    shape, whole = slope.type.shape, node.result.type.shape
    aligned = zip(reversed(shape), reversed(whole), strict=False)
    return len(shape) <= len(whole) and all(m in (1, n) for m, n in aligned)


def _emit_prelu(b: Builder, node: Node, x: Value, slope: Value, sign: int) -> Value:
    dtype = node.result.type.dtype
    slope = emit_as(b, slope, dtype)
    return b.emit(PRelu(), emit_as(b, x, dtype), slope if sign == 1 else b.emit(Neg(), slope))


RECOGNISE_RECTIFIERS = RewritePass(
    "recognise-rectifiers", (gather_leaky_maximum, gather_leaky_choice, gather_prelu)
)
