"""Recognise activations that exporters write as arithmetic: GELU, SiLU, hard swish and others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from afterglow.graph import Builder, Node, Op, Value
from afterglow.ops.activation import (
    Clip,
    Gelu,
    HardSigmoid,
    HardSwish,
    Mish,
    Sigmoid,
    Softplus,
    Softsign,
    Swish,
)
from afterglow.ops.elementwise import Abs, Add, Div, Less, Mul, Neg, Sub, Where, scalar
from afterglow.ops.functions import Erf, Exp, Log, Log1p, Reciprocal, Tanh
from afterglow.passes import rewrite
from afterglow.support.lazy_dataclass import dataclass
from afterglow.transforms.matching.patterns import (
    emit_as,
    ingredients,
    is_near,
    maker,
    orders,
    scalar_of,
    serves_only,
    uncast,
)
from afterglow.transforms.matching.polynomials import (
    Polynomial,
    is_polynomial,
    multiple_of,
    polynomial,
)
from afterglow.transforms.matching.rounding import RoundingRewritePass

NEAR = 4
"""How many nodes in a row may lie between a formula and the function inside it."""
_BELL = math.sqrt(2 / math.pi)
_SOFTPLUS_IS_LINEAR = 15.0
"""From here on log(1 + exp(x)) is x in single precision."""


@dataclass(frozen=True)
class Spelling:
    """`whole`, a polynomial in x and g = inner(argument), where `argument` is one in x."""

    inner: Op
    argument: Polynomial
    whole: Polynomial
    op: Op


_HALF_X_1_G: Polynomial = {(1, 0): 0.5, (1, 1): 0.5}
SPELLINGS = (
    Spelling(Erf(), {(1,): math.sqrt(0.5)}, _HALF_X_1_G, Gelu(approximate=False)),
    Spelling(Tanh(), {(1,): _BELL, (3,): 0.044715 * _BELL}, _HALF_X_1_G, Gelu(approximate=True)),
    Spelling(Tanh(), {(1,): 0.5}, {(0, 0): 0.5, (0, 1): 0.5}, Sigmoid()),
)
"""Formulas with constants that have to be these."""
HARD_SPELLINGS = (
    Spelling(Clip(0.0, 6.0), {(1,): 1.0, (0,): 3.0}, {(1, 1): 1 / 6}, HardSwish()),
    Spelling(Clip(0.0, 6.0), {(1,): 1.0, (0,): 3.0}, {(0, 1): 1 / 6}, HardSigmoid(1 / 6, 0.5)),
    Spelling(HardSigmoid(1 / 6, 0.5), {(1,): 1.0}, {(1, 1): 1.0}, HardSwish()),
)
"""Formulas of pieces of polynomials."""


@rewrite(Add, Mul, Div)
def gather_spelling(node: Node, b: Builder) -> Value | None:
    """0.5 x (1 + erf(x / sqrt(2)))  ->  gelu(x), and the other formulas of `SPELLINGS`."""
    return _gather(node, b, SPELLINGS)


@rewrite(Add, Mul, Div)
def gather_hard_spelling(node: Node, b: Builder) -> Value | None:
    """x clip(x + 3, 0, 6) / 6  ->  hard_swish(x), and the other formulas of `HARD_SPELLINGS`."""
    return _gather(node, b, HARD_SPELLINGS)


def _gather(node: Node, b: Builder, spellings: Sequence[Spelling]) -> Value | None:
    """The op of the formula that the node is, if it is one of some."""
    for inner in ingredients(node.result, NEAR):
        if inner.producer is None or inner.use_count > 1:
            continue
        for spelling in spellings:
            fits = type(spelling.inner) is type(inner.producer.op)
            x = _operand(spelling, node, inner) if fits else None
            if x is not None:
                return _emit(b, spelling.op, x, node)
    return None


def _is_op(node: Node, wanted: Op) -> bool:
    if isinstance(node.op, HardSigmoid) and isinstance(wanted, HardSigmoid):
        dtype = node.result.type.dtype
        near = is_near(node.op.alpha, wanted.alpha, dtype)
        return near and is_near(node.op.beta, wanted.beta, dtype)
    return node.op == wanted


def _operand(spelling: Spelling, node: Node, inner: Value) -> Value | None:
    """The x for which the node is the formula."""
    if inner.producer is None or not _is_op(inner.producer, spelling.inner):
        return None
    argument = inner.producer.given[0]
    for x in ingredients(argument, NEAR - 1):
        if (
            is_polynomial(argument, [x], spelling.argument)
            and is_polynomial(node.result, [x, inner], spelling.whole)
            and _fits(node, x)
        ):
            return x
    return None


def _fits(node: Node, x: Value) -> bool:
    """Whether one op of x can replace the node."""
    same = x.type.shape == node.result.type.shape and x.type.dtype.is_float
    return same and serves_only(node, [x])


def _emit(b: Builder, op: Op, x: Value, node: Node) -> Value:
    return b.emit(op, emit_as(b, x, node.result.type.dtype))


@rewrite(Mul)
def gather_swish(node: Node, b: Builder) -> Value | None:
    """x * sigmoid(a x)  ->  swish(x), a = 1 for SiLU and 1.702 for a quick GELU."""
    for x, gate in orders(node):
        sigmoid = maker(gate, Sigmoid)
        alpha = None if sigmoid is None else multiple_of(sigmoid.given[0], x)
        if alpha is not None and _fits(node, x):
            return _emit(b, Swish(alpha), x, node)
    return None


@rewrite(Mul)
def gather_mish(node: Node, b: Builder) -> Value | None:
    """x * tanh(softplus(x))  ->  mish(x)."""
    for x, gate in orders(node):
        tanh = maker(gate, Tanh)
        softplus = None if tanh is None else maker(tanh.given[0], Softplus)
        if softplus is not None and uncast(softplus.given[0]) is uncast(x) and _fits(node, x):
            return _emit(b, Mish(), x, node)
    return None


@rewrite(Div, Reciprocal)
def gather_sigmoid(node: Node, b: Builder) -> Value | None:
    """1 / (1 + exp(-x))  ->  sigmoid(x)."""
    *dividend, divisor = node.given
    if dividend and scalar_of(dividend[0]) != 1:
        return None
    for exponent in _exponents(divisor, {(0,): 1.0, (1,): 1.0}):
        if _fits(node, exponent):
            return _emit(b, Sigmoid(), _emit_negated(b, exponent), node)
    return None


def _emit_negated(b: Builder, value: Value) -> Value:
    """-value; of a multiple of x by a number, another multiple of x."""
    for x in ingredients(value):
        factor = multiple_of(value, x)
        if x is not uncast(value) and factor is not None and x.type.shape == value.type.shape:
            return x if factor == -1 else b.emit(Mul(), x, scalar(b, -factor, x))
    return b.emit(Neg(), value)


@rewrite(Div)
def gather_swish_quotient(node: Node, b: Builder) -> Value | None:
    """x / (1 + exp(-a x))  ->  swish(x)."""
    x, divisor = node.given
    for exponent in _exponents(divisor, {(0,): 1.0, (1,): 1.0}):
        factor = multiple_of(exponent, x)
        if factor is not None and _fits(node, x):
            return _emit(b, Swish(-factor), x, node)
    return None


def _exponents(value: Value, wanted: Polynomial) -> Iterator[Value]:
    """Each u for which the value is that polynomial in exp(u)."""
    for exponential in ingredients(value):
        node = maker(exponential, Exp)
        if node is not None and is_polynomial(value, [exponential], wanted):
            yield node.given[0]


@rewrite(Log, Log1p)
def gather_softplus(node: Node, b: Builder) -> Value | None:
    """log(1 + exp(x))  ->  softplus(x);  log1p(exp(x))  ->  softplus(x)."""
    wanted: Polynomial = {(1,): 1.0} if isinstance(node.op, Log1p) else {(0,): 1.0, (1,): 1.0}
    for x in _exponents(node.given[0], wanted):
        if _fits(node, x):
            return _emit(b, Softplus(), x, node)
    return None


@rewrite(Where)
def drop_linear_softplus(node: Node, b: Builder) -> Value | None:
    """where(c < x, x, softplus(x))  ->  softplus(x)  for c so large that both are x."""
    condition, then, other = node.given
    less, softplus = maker(condition, Less), maker(other, Softplus)
    if less is None or softplus is None:
        return None
    x = softplus.given[0]
    threshold = scalar_of(less.given[0])
    linear = threshold is not None and threshold >= _SOFTPLUS_IS_LINEAR
    if linear and less.given[1] is x and then is x and other.type == node.result.type:
        return other
    return None


@rewrite(Clip)
def gather_hard_sigmoid(node: Node, b: Builder) -> Value | None:
    """clip(a x + c, 0, 1)  ->  hard_sigmoid(x)."""
    line = node.given[0]
    if node.op != Clip(0.0, 1.0) or maker(line, Add, Sub) is None:
        return None
    for x in reversed([*ingredients(line)]):  # the farthest: the whole line goes into the op
        found = polynomial(line, x) or {}
        if found.keys() == {(0.0,), (1.0,)} and _fits(node, x):
            return _emit(b, HardSigmoid(found[(1.0,)], found[(0.0,)]), x, node)
    return None


@rewrite(Div)
def gather_softsign(node: Node, b: Builder) -> Value | None:
    """x / (1 + |x|)  ->  softsign(x)."""
    x, divisor = node.given
    for size in ingredients(divisor):
        absolute = maker(size, Abs)
        if absolute is not None and uncast(absolute.given[0]) is uncast(x):
            whole = is_polynomial(divisor, [size], {(0,): 1.0, (1,): 1.0})
            return _emit(b, Softsign(), x, node) if whole and _fits(node, x) else None
    return None


RECOGNISE_ACTIVATIONS = RoundingRewritePass(
    "recognise-activations",
    (
        gather_spelling,
        gather_hard_spelling,
        gather_swish,
        gather_mish,
        gather_sigmoid,
        gather_swish_quotient,
        gather_softplus,
        drop_linear_softplus,
        gather_hard_sigmoid,
        gather_softsign,
    ),
    rounding=(gather_hard_spelling, gather_hard_sigmoid),
)
