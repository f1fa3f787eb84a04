"""Laws of arithmetic: neutral elements, chains of constants, powers, double negations.

Constants go to the right of commutative ops, `x - c` becomes `x + -c`, and `x / c` becomes
`x * (1 / c)` where that is exact, so that other rules have fewer forms to match.
"""

from __future__ import annotations

import numpy as np

from afterglow.graph import Builder, Constant, Node, Op, Value
from afterglow.ops.elementwise import Add, Div, Equal, Max, Min, Mul, Neg, Sub, scalar
from afterglow.ops.functions import Reciprocal, Sqrt
from afterglow.ops.power import Pow
from afterglow.passes import rewrite
from afterglow.transforms.matching.rounding import RoundingRewritePass
from afterglow.transforms.matching.values import constant_result, has_one_use, is_filled, uniform
from afterglow.types import Array

NEUTRAL: dict[type[Op], int] = {
    Add: 0,
    Sub: 0,
    Mul: 1,
    Div: 1,
    Pow: 1,
}
"""What changes nothing as the right operand."""


@rewrite(Add, Mul, Max, Min, Equal)
def move_constant_right(node: Node, b: Builder) -> Value | None:
    """c + x  ->  x + c, and so for the other commutative ops."""
    match node.operands:
        case [Constant() as c, Value() as x] if not isinstance(x, Constant):
            return b.emit(node.op, x, c)
    return None


@rewrite(*NEUTRAL)
def drop_neutral(node: Node, b: Builder) -> Value | None:
    """x + 0, x - 0, x * 1, x / 1, x ** 1  ->  x."""
    match node.operands:
        case [Value() as x, Constant() as c] if x.type == node.result.type:
            return x if is_filled(c, NEUTRAL[type(node.op)]) else None
    return None


@rewrite(Sub)
def subtract_by_adding(node: Node, b: Builder) -> Value | None:
    """x - c  ->  x + -c."""
    match node.operands:
        case [Value() as x, Constant(data) as c] if not isinstance(x, Constant):
            exact = c.type.dtype.bits >= 16  # some narrow types have no negative numbers
            return b.emit(Add(), x, b.constant(np.negative(data), c.name)) if exact else None
    return None


@rewrite(Div)
def divide_by_multiplying(node: Node, b: Builder) -> Value | None:
    """x / c  ->  x * (1 / c)  if each 1 / c is exact."""
    match node.operands:
        case [Value() as x, Constant(data) as c] if not isinstance(x, Constant):
            inverse = _exact_reciprocal(data) if c.type.dtype.is_float else None
            return None if inverse is None else b.emit(Mul(), x, b.constant(inverse, c.name))
    return None


def _exact_reciprocal(data: Array) -> Array | None:
    wide = data.astype(np.float64)
    mantissa, _ = np.frexp(wide)
    if not np.all(np.abs(mantissa) == 0.5):
        return None
    inverse = (1 / wide).astype(data.dtype)
    return inverse if np.all(inverse.astype(np.float64) * wide == 1) else None


@rewrite(Add)
def merge_sums(node: Node, b: Builder) -> Value | None:
    """(x + c) + d  ->  x + (c + d)."""
    match node:
        case Node(
            Add(),
            [Value(Node(Add(), [Value() as x, Constant() as c])) as inner, Constant() as d],
        ) if has_one_use(inner):
            total = constant_result(Add(), c, d)
            return None if total is None else b.emit(Add(), x, b.constant(total, d.name))
    return None


@rewrite(Mul, Div)
def merge_products(node: Node, b: Builder) -> Value | None:
    """(x * c) * d -> x * (c * d);  (x * c) / d -> x * (c / d);  and so after x / c."""
    match node:
        case Node(
            outer,
            [
                Value(Node(Mul() | Div() as first, [Value() as x, Constant() as c])) as inner,
                Constant() as d,
            ],
        ) if has_one_use(inner):
            merged = _merged_factors(first, outer, c, d)
            if merged is not None:
                op, factor = merged
                return b.emit(op, x, b.constant(factor, d.name))
    return None


def _merged_factors(first: Op, outer: Op, c: Constant, d: Constant) -> tuple[Op, Array] | None:
    """The op and the constant by which to multiply or divide once, if nothing is lost."""
    multiplies = isinstance(first, Mul), isinstance(outer, Mul)
    if not c.type.dtype.is_float and not all(multiplies):
        return None
    match multiplies:
        case (True, _):
            factor = constant_result(outer, c, d)
        case (False, True):
            factor = constant_result(Div(), d, c)
        case _:
            factor = constant_result(Mul(), c, d)
    if factor is None or np.any((factor == 0) & (c.data != 0) & (d.data != 0)):
        return None
    return Mul() if any(multiplies) else Div(), factor


@rewrite(Mul)
def distribute_factor(node: Node, b: Builder) -> Value | None:
    """(x * c + d) * e  ->  x * (c * e) + d * e."""
    match node:
        case Node(
            Mul(),
            [
                Value(
                    Node(
                        Add(),
                        [
                            Value(Node(Mul(), [Value() as x, Constant() as c])) as scaled,
                            Constant() as d,
                        ],
                    )
                ) as shifted,
                Constant() as e,
            ],
        ) if has_one_use(shifted) and has_one_use(scaled):
            scale, shift = constant_result(Mul(), c, e), constant_result(Mul(), d, e)
            if scale is None or shift is None:
                return None
            product = b.emit(Mul(), x, b.constant(scale, c.name))
            return b.emit(Add(), product, b.constant(shift, d.name))
    return None


@rewrite(Pow)
def expand_power(node: Node, b: Builder) -> Value | None:
    """x ** 2 -> x * x;  x ** 3 -> x * x * x;  x ** 0.5 -> sqrt(x);  x ** -1 -> 1 / x."""
    match node.operands:
        case [Value() as x, Constant() as c] if x.type == node.result.type:
            return _power(b, x, uniform(c)) if x.type.dtype.is_float else None
    return None


def _power(b: Builder, x: Value, exponent: float | None) -> Value | None:
    match exponent:
        case 2:
            return b.emit(Mul(), x, x)
        case 3:
            return b.emit(Mul(), b.emit(Mul(), x, x), x)
        case 0.5:
            return b.emit(Sqrt(), x)
        case -1:
            return b.emit(Div(), scalar(b, 1, x), x)
        case -0.5:
            return b.emit(Div(), scalar(b, 1, x), b.emit(Sqrt(), x))
    return None


@rewrite(Neg)
def drop_double_negation(node: Node, b: Builder) -> Value | None:
    """-(-x)  ->  x."""
    match node:
        case Node(Neg(), [Value(Node(Neg(), [x]))]):
            return x
    return None


@rewrite(Add, Sub)
def absorb_negation(node: Node, b: Builder) -> Value | None:
    """x + -y  ->  x - y;  -x + y  ->  y - x;  x - -y  ->  x + y."""
    match node:
        case Node(Add(), [Value() as x, Value(Node(Neg(), [Value() as y]))]):
            return b.emit(Sub(), x, y)
        case Node(Add(), [Value(Node(Neg(), [Value() as x])), Value() as y]):
            return b.emit(Sub(), y, x)
        case Node(Sub(), [Value() as x, Value(Node(Neg(), [Value() as y]))]):
            return b.emit(Add(), x, y)
    return None


@rewrite(Mul)
def divide_at_once(node: Node, b: Builder) -> Value | None:
    """x * (1 / y)  ->  x / y,  if y is no smaller than the result."""
    match node:
        case Node(
            Mul(),
            [Value() as x, Value(Node(Reciprocal(), [Value() as y])) as inverse]
            | [Value(Node(Reciprocal(), [Value() as y])) as inverse, Value() as x],
        ) if has_one_use(inverse) and y.type == node.result.type:
            return b.emit(Div(), x, y)
    return None


@rewrite(Div)
def multiply_at_once(node: Node, b: Builder) -> Value | None:
    """x / (1 / y)  ->  x * y."""
    match node:
        case Node(Div(), [Value() as x, Value(Node(Reciprocal(), [Value() as y])) as inverse]):
            return b.emit(Mul(), x, y) if has_one_use(inverse) else None
    return None


ARITHMETIC = RoundingRewritePass(
    "arithmetic",
    (
        move_constant_right,
        drop_neutral,
        subtract_by_adding,
        divide_by_multiplying,
        merge_sums,
        merge_products,
        distribute_factor,
        expand_power,
        drop_double_negation,
        absorb_negation,
        divide_at_once,
        multiply_at_once,
    ),
    rounding=(merge_sums, merge_products, distribute_factor, divide_at_once, multiply_at_once),
)
