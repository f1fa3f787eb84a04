"""Formulas as polynomials, so that a pattern is one comparison however the formula is written.

0.5 x (1 + e), x (0.5 e + 0.5) and x / 2 + x e / 2 are one polynomial in x and e. Exponents may be
negative or fractions: x / sqrt(v) is x v**-0.5.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from afterglow.graph import Node, Value
from afterglow.ops.elementwise import Add, Div, Mul, Neg, Sub
from afterglow.ops.functions import Reciprocal, Sqrt
from afterglow.ops.power import Pow
from afterglow.transforms.matching.patterns import is_near, scalar_of, uncast
from afterglow.types import DType

Exponents = tuple[float, ...]
Polynomial = dict[Exponents, float]
"""The coefficient of each product of powers of the atoms; none is 0."""

DEEPEST = 8
"""How many nodes in a row are read."""
MOST_TERMS = 8
"""How many terms a polynomial may have on the way."""
LARGEST_POWER = 4
"""The largest exponent for which a sum is multiplied out."""


def polynomial(value: Value, *atoms: Value) -> Polynomial | None:
    """Read a value as a polynomial in the atoms; None if something else is in it."""
    return _Reader([uncast(atom) for atom in atoms]).read(value, DEEPEST)


def is_polynomial(value: Value, atoms: Sequence[Value], wanted: Polynomial) -> bool:
    """Whether a value is this polynomial in the atoms, as near as the least precise allows."""
    found = polynomial(value, *atoms)
    dtype = min((v.type.dtype for v in (value, *atoms)), key=lambda dtype: dtype.bits)
    return found is not None and are_near(found, wanted, dtype)


def are_near(found: Polynomial, wanted: Polynomial, dtype: DType) -> bool:
    """Whether two polynomials have the same terms and nearly the same coefficients."""
    return found.keys() == wanted.keys() and all(
        is_near(found[term], wanted[term], dtype) for term in wanted
    )


def multiple_of(value: Value, x: Value) -> float | None:
    """The number a for which the value is a x."""
    found = polynomial(value, x) or {}
    return found[(1.0,)] if found.keys() == {(1.0,)} else None


class _Reader:
    """Reads formulas over some atoms."""

    def __init__(self, atoms: Sequence[Value]) -> None:
        self.atoms = atoms

    def read(self, value: Value, depth: int) -> Polynomial | None:
        value = uncast(value)
        for index, atom in enumerate(self.atoms):
            if value is atom:
                return {tuple(float(i == index) for i in range(len(self.atoms))): 1.0}
        number = scalar_of(value)
        if number is not None:
            return self.number(number) if math.isfinite(number) else None
        if value.producer is None or depth == 0:
            return None
        return self.applied(value.producer, depth - 1)

    def number(self, number: float) -> Polynomial:
        return {(0.0,) * len(self.atoms): number} if number else {}

    def applied(self, node: Node, depth: int) -> Polynomial | None:
        combine = RULES.get(type(node.op))
        if combine is None:
            return None
        parts = []
        for operand in node.given:
            part = self.read(operand, depth)
            if part is None:
                return None
            parts.append(part)
        result = combine(*parts)
        return result if result is not None and _is_usable(result) else None


def _is_usable(p: Polynomial) -> bool:
    """Whether it is short, and all its coefficients are numbers that were not out of range."""
    return len(p) <= MOST_TERMS and all(map(math.isfinite, p.values()))


def _sum(p: Polynomial, q: Polynomial) -> Polynomial:
    total = dict(p)
    for term, coefficient in q.items():
        total[term] = total.get(term, 0.0) + coefficient
    return {term: coefficient for term, coefficient in total.items() if coefficient}


def _negated(p: Polynomial) -> Polynomial:
    return {term: -coefficient for term, coefficient in p.items()}


def _difference(p: Polynomial, q: Polynomial) -> Polynomial:
    return _sum(p, _negated(q))


def _product(p: Polynomial, q: Polynomial) -> Polynomial | None:
    total: Polynomial = {}
    for a, m in p.items():
        for b, n in q.items():
            if any(i * j < 0 for i, j in zip(a, b, strict=True)):
                return None  # x / x is not 1 where x is 0
            term = tuple(i + j for i, j in zip(a, b, strict=True))
            total = _sum(total, {term: m * n})
    return total


def _quotient(p: Polynomial, q: Polynomial) -> Polynomial | None:
    inverse = _inverse(q)
    return None if inverse is None else _product(p, inverse)


def _inverse(p: Polynomial) -> Polynomial | None:
    return _monomial_power(p, -1.0)


def _root(p: Polynomial) -> Polynomial | None:
    return _monomial_power(p, 0.5)


def _power(p: Polynomial, exponent: Polynomial) -> Polynomial | None:
    if any(any(term) for term in exponent):
        return None
    number = sum(exponent.values())
    if number not in range(1, LARGEST_POWER + 1):
        return _monomial_power(p, number)
    result: Polynomial | None = p
    for _ in range(int(number) - 1):
        result = None if result is None else _product(result, p)
    return result


def _monomial_power(p: Polynomial, exponent: float) -> Polynomial | None:
    """Of one term only; fractions only of a number or an atom: sqrt(x²) is not x."""
    if len(p) != 1:
        return None
    ((term, coefficient),) = p.items()
    whole = exponent == int(exponent)
    plain = sorted(term)[:-1] == [0.0] * (len(term) - 1) and max(term, default=0.0) in (0.0, 1.0)
    if not whole and not (plain and coefficient > 0):
        return None
    try:
        return {tuple(i * exponent for i in term): coefficient**exponent}
    except OverflowError:
        return None


RULES: dict[type, Callable[..., Polynomial | None]] = {
    Add: _sum,
    Sub: _difference,
    Mul: _product,
    Neg: _negated,
    Div: _quotient,
    Reciprocal: _inverse,
    Sqrt: _root,
    Pow: _power,
}
"""How each op makes a polynomial from those of its operands."""
