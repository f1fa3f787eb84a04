"""Extents that are functions of dimensions: their arithmetic, in a normal form, and their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from math import prod
from typing import Any, NoReturn

from afterglow.support.errors import TypeRuleError
from afterglow.types.extent.atoms import (
    Atom,
    Dim,
    Expression,
    Extents,
    Extreme,
    Monomial,
    Quotient,
    Remainder,
    Terms,
    bind_extent,
    dims_of,
    interval,
    is_ranged,
    largest,
    smallest,
    terms_of,
)
from afterglow.types.extent.bounds import bounds_of, without

_REMEMBERED = 1 << 14
"""Results of arithmetic that are remembered: compiling a model asks for the same ones often."""


class UndecidedExtentError(TypeRuleError):
    """Something depends on the extent of a dimension in a way that no code for a range can have."""


class RangedExtent(Expression):
    """An extent that is a function of dimensions; as an integer, its largest value.

    Sums, differences, products, quotients and remainders are such extents again. Equality is that
    of expressions in their normal form. Order and truth are decided by the bounds, or raise. (Write
    the extent before a float: `0.5 < n` is the float's own comparison, with the largest value.)
    """

    _hash: int

    def __new__(cls, terms: Terms) -> RangedExtent:
        """The extent that is a sum in its normal form."""
        low, high = bounds_of(terms)
        extent = super().__new__(cls, high)
        extent.terms = terms
        extent.low = low
        extent._hash = hash(terms)
        return extent

    def bind(self, extents: Extents) -> int:
        """Its value in one run, or what is left of it if dimensions have no extents."""
        if all(dim.name in extents for dim in self.dims):
            return super().bind(extents)
        return sum(
            factor * prod(_bound_atom(atom, extents) for atom in monomial)
            for monomial, factor in self.terms
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return RangedExtent, (self.terms,)

    def __add__(self, other: int) -> int:
        return _sum(self, other, 1) if isinstance(other, int) else NotImplemented

    __radd__ = __add__

    def __sub__(self, other: int) -> int:
        return _sum(self, other, -1) if isinstance(other, int) else NotImplemented

    def __rsub__(self, other: int) -> int:
        return _sum(other, self, -1) if isinstance(other, int) else NotImplemented

    def __neg__(self) -> int:
        return _product(self, -1)

    def __mul__(self, other: Any) -> Any:
        return _product(self, other) if isinstance(other, int) else NotImplemented

    __rmul__ = __mul__

    def __floordiv__(self, other: int) -> int:
        return _quotient(self, other) if isinstance(other, int) else NotImplemented

    def __rfloordiv__(self, other: int) -> int:
        return _quotient(other, self) if isinstance(other, int) else NotImplemented

    def __mod__(self, other: int) -> int:
        return _remainder(self, other) if isinstance(other, int) else NotImplemented

    def __rmod__(self, other: int) -> int:
        return _remainder(other, self) if isinstance(other, int) else NotImplemented

    def __divmod__(self, other: int) -> tuple[int, int]:
        return self // other, self % other

    def __rdivmod__(self, other: int) -> tuple[int, int]:
        return other // self, other % self

    def __pow__(self, exponent: int, modulus: None = None) -> int:  # type: ignore[override]
        return prod([self] * exponent)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RangedExtent):
            return False
        return self._hash == other._hash and self.terms == other.terms

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return self._hash

    def __lt__(self, other: float) -> bool:
        return self._decide("<", other, lambda low, high: low > 0, lambda low, high: high <= 0)

    def __le__(self, other: float) -> bool:
        return self._decide("<=", other, lambda low, high: low >= 0, lambda low, high: high < 0)

    def __gt__(self, other: float) -> bool:
        return self._decide(">", other, lambda low, high: high < 0, lambda low, high: low >= 0)

    def __ge__(self, other: float) -> bool:
        return self._decide(">=", other, lambda low, high: high <= 0, lambda low, high: low > 0)

    def __bool__(self) -> bool:
        if self.low <= 0 <= int(self):
            raise undecided(f"whether {self} is 0", self)
        return True

    def _decide(
        self,
        sign: str,
        other: float,
        yes: Callable[[float, float], bool],
        no: Callable[[float, float], bool],
    ) -> bool:
        """Whether a comparison holds, by the bounds of `other` minus this."""
        if not isinstance(other, int | float):
            return NotImplemented
        exact = other if isinstance(other, int) else 0
        low, high = (bound + (other - exact) for bound in interval(exact - self))
        if yes(low, high) or no(low, high):
            return yes(low, high)
        raise undecided(f"whether {self} {sign} {other}", self, exact)

    def _refuse(self, *others: object) -> NoReturn:
        raise UndecidedExtentError(f"the bits of {self} are not known")

    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _refuse
    __lshift__ = __rshift__ = __rlshift__ = __rrshift__ = __invert__ = _refuse


def ranged(dim: Dim) -> int:
    """The extent of a dimension: a number if there is only one."""
    return _extent({(dim,): dim.step})


def at_least(first: int, second: int) -> bool:
    """Whether an extent is surely no smaller than another: whatever the extents are in a run."""
    return smallest(first - second) >= 0


def smaller_extent(first: int, second: int) -> int:
    """The smaller of two extents, as an expression where the bounds do not decide."""
    return _extreme(first, second, larger=False)


def larger_extent(first: int, second: int) -> int:
    """The larger of two extents, as an expression where the bounds do not decide."""
    return _extreme(first, second, larger=True)


def undecided(what: str, *given: int) -> UndecidedExtentError:
    """The error about something that depends on extents."""
    names = ", ".join(f"{dim.spelled} ({dim.range_text})" for dim in dims_of(*given))
    return UndecidedExtentError(f"{what} depends on {names}")


def _extent(terms: Mapping[Monomial, int]) -> int:
    """The extent that is a sum: a number if it has one value only."""
    kept = sorted(
        ((monomial, factor) for monomial, factor in terms.items() if factor),
        key=lambda term: (-len(term[0]), [str(atom) for atom in term[0]]),
    )
    extent = RangedExtent(tuple(kept))
    return extent if extent.low < largest(extent) else extent.low


@lru_cache(_REMEMBERED)
def _sum(first: int, second: int, sign: int) -> int:
    """The sum of an extent and another one times a sign."""
    terms = dict(terms_of(first))
    for monomial, factor in terms_of(second):
        terms[monomial] = terms.get(monomial, 0) + sign * factor
    return _extent(terms)


@lru_cache(_REMEMBERED)
def _product(first: int, second: int) -> int:
    terms: dict[Monomial, int] = {}
    for one, a in terms_of(first):
        for other, b in terms_of(second):
            monomial = tuple(sorted((*one, *other), key=str))
            terms[monomial] = terms.get(monomial, 0) + a * b
    return _extent(terms)


@lru_cache(_REMEMBERED)
def _quotient(dividend: int, divisor: int) -> int:
    """The quotient, rounded down; as little of it as possible is left as a division."""
    if smallest(divisor) <= 0:
        raise undecided(f"{dividend} divided by {divisor}", dividend, divisor)
    if is_ranged(divisor):
        divided = _divided(dividend, divisor)
        return _atom(Quotient(dividend, divisor)) if divided is None else divided[0]
    whole, rest = dict[Monomial, int](), dict[Monomial, int]()
    for monomial, factor in terms_of(dividend):
        shared, left = (factor // divisor, factor % divisor)
        if not monomial or left == 0:
            whole[monomial], rest[monomial] = shared, left
        else:
            rest[monomial] = factor
    left_over = _extent(rest)
    if smallest(left_over) >= 0 and largest(left_over) < divisor:
        return _extent(whole)
    inner = _quotient_in(left_over)
    if inner is not None:  # (x // m + c) // n is (x + c * m) // (m * n)
        added = left_over - _atom(inner)
        left_over, divisor = inner.dividend + added * inner.divisor, inner.divisor * divisor
        return _extent(whole) + _quotient(left_over, divisor)
    return _extent(whole) + _atom(Quotient(left_over, divisor))


def _quotient_in(extent: int) -> Quotient | None:
    """The quotient by a number that an extent is, or is the sum of with a number."""
    (monomial, factor), *rest = terms_of(extent)
    atom = monomial[0] if len(monomial) == factor == 1 else None
    alone = all(other == () for other, _ in rest)
    return atom if alone and isinstance(atom, Quotient) and not is_ranged(atom.divisor) else None


def _divided(dividend: int, divisor: int) -> tuple[int, int] | None:
    """The quotient by an expression, rounded down, and what it leaves, if the bounds tell them."""
    left, total = dividend, 0
    for _ in range(8):
        if smallest(left) >= 0 and at_least(divisor - 1, left):
            return total, left
        part = -1 if largest(left) < 0 else _ratio(left, divisor)
        if part == 0:
            return None
        total, left = total + part, left - part * divisor
    return None


def _ratio(left: int, divisor: int) -> int:
    """The quotient of the first terms of two sums, rounded down; 0 if it is none."""
    (monomial, factor), (leading, count) = (next(iter(terms_of(n))) for n in (left, divisor))
    shared = without(monomial, leading)
    return 0 if shared is None else _extent({shared: factor // count})


def _remainder(dividend: int, divisor: int) -> int:
    if smallest(divisor) <= 0:
        raise undecided(f"{dividend} divided by {divisor}", dividend, divisor)
    if is_ranged(divisor):
        divided = _divided(dividend, divisor)
        return _atom(Remainder(dividend, divisor)) if divided is None else divided[1]
    rest = _extent({monomial: factor % divisor for monomial, factor in terms_of(dividend)})
    low, high = interval(rest)
    return rest if low >= 0 and high < divisor else _atom(Remainder(rest, divisor))


def _extreme(first: int, second: int, *, larger: bool) -> int:
    if at_least(second, first):
        return second if larger else first
    if at_least(first, second):
        return first if larger else second
    ordered = sorted((first, second), key=str)
    return _atom(Extreme(ordered[0], ordered[1], larger))


def _bound_atom(atom: Atom, extents: Extents) -> int:
    """What is left of an atom if some dimensions have extents."""
    match atom:
        case Dim():
            return atom.value(extents) if atom.name in extents else _atom(atom)
        case Extreme():
            first, second = (bind_extent(n, extents) for n in (atom.first, atom.second))
            return _extreme(first, second, larger=atom.larger)
        case _:
            return atom.value(extents)


def _atom(atom: Atom) -> int:
    return _extent({(atom,): 1})


def walk_extents(value: object) -> Iterator[RangedExtent]:
    """Every ranged extent in a value: in tuples, lists and dictionaries too."""
    if isinstance(value, RangedExtent):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            if type(part) is not int:  # as most are
                yield from walk_extents(part)
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from walk_extents(part)
