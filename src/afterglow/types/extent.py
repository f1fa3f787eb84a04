"""Extents: how long an axis is, as a number or as an expression over named dimensions.

A `RangedExtent` is an integer, its largest value, that knows the expression it stands for. Code
that asks for room (sizes, costs, addresses) needs to know nothing about it. Code that decides
something gets an answer that holds for every extent, or an `UndecidedExtentError`: a comparison
whose result the bounds of the dimensions do not tell raises rather than guesses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from math import prod
from typing import Any, NoReturn, TypeAlias

from afterglow.support.errors import TypeRuleError
from afterglow.types.extent_terms import MOST_RELATED, loose_bounds, without

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
REMEMBERED = 1 << 14
"""Results of arithmetic that are remembered: compiling a model asks for the same ones often."""
_RESERVED = ("min", "max", "inf", "nan", "true", "false", "none")

Extents: TypeAlias = Mapping[str, int]
"""The extents of dimensions in one run, by name."""


class UndecidedExtentError(TypeRuleError):
    """Something depends on the extent of a dimension in a way that no code for a range can have."""


class _Atom:
    """What all atoms have: a text and a hash, which are asked for again and again."""

    @cached_property
    def text(self) -> str:
        """The expression, as texts spell it."""
        raise NotImplementedError

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """The least and the largest value."""
        raise NotImplementedError

    @property
    def parts(self) -> tuple[int, ...]:
        """The extents that it is computed from."""
        return ()

    @cached_property
    def _hash(self) -> int:
        return hash((type(self).__name__, self.text, self.bounds))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        """Its fields alone: hashes of texts differ from process to process."""
        own: Any = self
        return type(self), tuple(getattr(self, field.name) for field in fields(own))

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Dim(_Atom):
    """A named dimension: its extent is between `low` and `high`, and a multiple of `step`."""

    name: str
    low: int
    high: int
    step: int = 1

    __hash__ = _Atom.__hash__

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """The least and the largest number of steps."""
        return self.low // self.step, self.high // self.step

    def value(self, extents: Extents) -> int:
        """The number of steps in one run; a dimension without an extent stays as it is."""
        return extents[self.name] // self.step if self.name in extents else _atom(self)

    @cached_property
    def spelled(self) -> str:
        """Its name, as texts spell it."""
        plain = _WORD.match(self.name) and self.name not in _RESERVED
        return self.name if plain else json.dumps(self.name)

    @property
    def range_text(self) -> str:
        """Its bounds, such as `1..512` or `32..640 by 32`."""
        return f"{self.low}..{self.high}" + (f" by {self.step}" if self.step > 1 else "")

    @property
    def with_bounds(self) -> str:
        """Its name and its bounds, such as `seq 1..512`."""
        return f"{self.spelled} {self.range_text}"

    @cached_property
    def text(self) -> str:
        """The expression, as texts spell it."""
        return self.spelled if self.step == 1 else f"{self.spelled} // {self.step}"


@dataclass(frozen=True)
class _Division(_Atom):
    """Base: what follows from a division of extents."""

    dividend: int
    divisor: int

    __hash__ = _Atom.__hash__

    @property
    def parts(self) -> tuple[int, ...]:
        """The extents that it is computed from."""
        return self.dividend, self.divisor

    def bound(self, extents: Extents) -> tuple[int, int]:
        """Both in one run."""
        return bind_extent(self.dividend, extents), bind_extent(self.divisor, extents)


class Quotient(_Division):
    """A quotient of extents, rounded down."""

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """The least and the largest value."""
        corners = [a // b for a in _interval(self.dividend) for b in _interval(self.divisor)]
        return min(corners), max(corners)

    def value(self, extents: Extents) -> int:
        """The value in one run."""
        dividend, divisor = self.bound(extents)
        return dividend // divisor

    @cached_property
    def text(self) -> str:
        """The expression, as texts spell it."""
        return f"{_grouped(self.dividend)} // {_grouped(self.divisor)}"


class Remainder(_Division):
    """What a division of extents leaves."""

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """The least and the largest value."""
        return 0, _interval(self.divisor)[1] - 1

    def value(self, extents: Extents) -> int:
        """The value in one run."""
        dividend, divisor = self.bound(extents)
        return dividend % divisor

    @cached_property
    def text(self) -> str:
        """The expression, as texts spell it."""
        return f"{_grouped(self.dividend)} % {_grouped(self.divisor)}"


@dataclass(frozen=True)
class Extreme(_Atom):
    """The smaller or the larger of two extents."""

    first: int
    second: int
    larger: bool

    __hash__ = _Atom.__hash__

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """The least and the largest value."""
        (a, b), (c, d) = _interval(self.first), _interval(self.second)
        return (max(a, c), max(b, d)) if self.larger else (min(a, c), min(b, d))

    def value(self, extents: Extents) -> int:
        """The value in one run."""
        first, second = bind_extent(self.first, extents), bind_extent(self.second, extents)
        return _extreme(first, second, larger=self.larger)

    @property
    def parts(self) -> tuple[int, ...]:
        """The extents that it is computed from."""
        return self.first, self.second

    @cached_property
    def text(self) -> str:
        """The expression, as texts spell it."""
        return f"{'max' if self.larger else 'min'}({self.first}, {self.second})"


Atom: TypeAlias = "Dim | Quotient | Remainder | Extreme"
"""What expressions are sums of products of."""
Monomial: TypeAlias = "tuple[Atom, ...]"
"""A product of atoms, in the order of their texts; the empty one is 1."""
Terms: TypeAlias = "tuple[tuple[Monomial, int], ...]"
"""A sum of products, each with its coefficient, in the order of their texts: a normal form."""


class RangedExtent(int):
    """An extent that is a function of dimensions; as an integer, its largest value.

    Sums, differences, products, quotients and remainders are such extents again. Equality is that
    of expressions in their normal form. Order and truth are decided by the bounds, or raise.
    """

    terms: Terms
    low: int
    _hash: int

    def __new__(cls, terms: Terms) -> RangedExtent:
        """The extent that is a sum in its normal form, with more than one value."""
        low, high = _bounds(terms)
        extent = super().__new__(cls, high)
        extent.terms = terms
        extent.low = low
        extent._hash = hash(terms)
        return extent

    def __reduce__(self) -> tuple[Any, ...]:
        return RangedExtent, (self.terms,)

    @cached_property
    def dims(self) -> tuple[Dim, ...]:
        """The dimensions that it depends on, by name."""
        found: dict[Dim, None] = {}
        for monomial, _ in self.terms:
            for atom in monomial:
                if isinstance(atom, Dim):
                    found[atom] = None
                for part in atom.parts:
                    found.update(dict.fromkeys(dims_of(part)))
        return tuple(sorted(found, key=lambda dim: dim.name))

    def bind(self, extents: Extents) -> int:
        """Its value in one run, or what is left of it if dimensions have no extents."""
        return sum(
            factor * prod(atom.value(extents) for atom in monomial)
            for monomial, factor in self.terms
        )

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

    def __lt__(self, other: int) -> bool:
        return self._decide("<", other, lambda low, high: low > 0, lambda low, high: high <= 0)

    def __le__(self, other: int) -> bool:
        return self._decide("<=", other, lambda low, high: low >= 0, lambda low, high: high < 0)

    def __gt__(self, other: int) -> bool:
        return self._decide(">", other, lambda low, high: high < 0, lambda low, high: low >= 0)

    def __ge__(self, other: int) -> bool:
        return self._decide(">=", other, lambda low, high: high <= 0, lambda low, high: low > 0)

    def __bool__(self) -> bool:
        if self.low <= 0 <= int(self):
            raise undecided(f"whether {self} is 0", self)
        return True

    def _decide(
        self,
        sign: str,
        other: int,
        yes: Callable[[int, int], bool],
        no: Callable[[int, int], bool],
    ) -> bool:
        """Whether a comparison holds, by the bounds of `other` minus this."""
        if not isinstance(other, int):
            return NotImplemented
        low, high = _interval(other - self)
        if yes(low, high) or no(low, high):
            return yes(low, high)
        raise undecided(f"whether {self} {sign} {other}", self, other)

    def _refuse(self, *others: object) -> NoReturn:
        raise UndecidedExtentError(f"the bits of {self} are not known")

    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _refuse
    __lshift__ = __rshift__ = __rlshift__ = __rrshift__ = __invert__ = _refuse

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        text = ""
        for monomial, factor in self.terms:
            sign = " - " if factor < 0 else " + "
            alone = factor == len(monomial) == 1
            term = str(monomial[0]) if alone else _term_text(monomial, abs(factor))
            text += (sign if text else sign.strip(" +")) + term
        return text

    __repr__ = __str__


def ranged(dim: Dim) -> int:
    """The extent of a dimension: a number if there is only one."""
    return _extent({(dim,): dim.step})


def is_ranged(extent: object) -> bool:
    """Whether an extent depends on dimensions."""
    return isinstance(extent, RangedExtent)


def largest(extent: int) -> int:
    """The largest value of an extent, as a plain number."""
    return int(extent)


def smallest(extent: int) -> int:
    """The smallest value of an extent, as a plain number."""
    return extent.low if isinstance(extent, RangedExtent) else extent


def bind_extent(extent: int, extents: Extents) -> int:
    """The value of an extent in one run, as a plain number."""
    return extent.bind(extents) if isinstance(extent, RangedExtent) else extent


def dims_of(*given: int) -> tuple[Dim, ...]:
    """The dimensions that extents depend on, by name."""
    found = {dim for extent in given if isinstance(extent, RangedExtent) for dim in extent.dims}
    return tuple(sorted(found, key=lambda dim: dim.name))


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


def _interval(extent: int) -> tuple[int, int]:
    return smallest(extent), largest(extent)


def _bounds(terms: Terms, depth: int = 2) -> tuple[int, int]:
    """Bounds of a sum: those of its products, and of what follows from how atoms were made."""
    low, high = loose_bounds(terms)
    made = [term for term in terms if len(term[0]) == 1 and term[0][0].parts]
    for term in made if depth and len(made) <= MOST_RELATED else ():
        if _varies_with(term[0][0], terms):
            rest = [other for other in terms if other is not term]
            least, most = _bounds_around(term, rest, depth - 1)
            low, high = max(low, least), min(high, most)
    return low, high


def _varies_with(atom: Atom, terms: Terms) -> bool:
    """Whether other products of a sum depend on the dimensions that an atom is computed from."""
    own = {*dims_of(*atom.parts)}
    others = [part for monomial, _ in terms for part in monomial if part != atom]
    return any(not own.isdisjoint(_dims_of_atom(other)) for other in others)


def _dims_of_atom(atom: Atom) -> tuple[Dim, ...]:
    return (atom,) if isinstance(atom, Dim) else dims_of(*atom.parts)


def _bounds_around(term: tuple[Monomial, int], rest: list[Any], depth: int) -> tuple[int, int]:
    """Bounds of a sum with a multiple of one atom, from what that atom is computed from.

    The smaller of two extents is one of them, and d * (x // d) is x or up to d - 1 less.
    """
    ((atom,), factor) = term
    if isinstance(atom, Extreme):
        sums = (_with_multiple(rest, 1, part, factor) for part in atom.parts)
        lows, highs = zip(*(_bounds(terms, depth) for terms in sums), strict=True)
        choose = max if atom.larger is (factor > 0) else min
        return choose(lows), choose(highs)
    if isinstance(atom, Quotient) and not is_ranged(atom.divisor):
        divisor = atom.divisor
        low, high = _bounds(_with_multiple(rest, divisor, atom.dividend, factor), depth)
        less = factor * (divisor - 1)
        return -(-(low - max(less, 0)) // divisor), (high - min(less, 0)) // divisor
    return loose_bounds((term, *rest))


def _with_multiple(rest: list[tuple[Monomial, int]], times: int, extent: int, factor: int) -> Terms:
    """A sum a number of times, and so many times an extent."""
    total = {monomial: times * count for monomial, count in rest}
    for monomial, count in _terms_of(extent):
        total[monomial] = total.get(monomial, 0) + factor * count
    return tuple((monomial, count) for monomial, count in total.items() if count)


def _terms_of(extent: int) -> Iterable[tuple[Monomial, int]]:
    if isinstance(extent, RangedExtent):
        return extent.terms
    return [((), extent)]


def _extent(terms: Mapping[Monomial, int]) -> int:
    """The extent that is a sum: a number if it has one value only."""
    kept = sorted(
        ((monomial, factor) for monomial, factor in terms.items() if factor),
        key=lambda term: (-len(term[0]), [str(atom) for atom in term[0]]),
    )
    low, high = _bounds(tuple(kept))
    return RangedExtent(tuple(kept)) if low < high else low


@lru_cache(REMEMBERED)
def _sum(first: int, second: int, sign: int) -> int:
    """The sum of an extent and another one times a sign."""
    terms = dict(_terms_of(first))
    for monomial, factor in _terms_of(second):
        terms[monomial] = terms.get(monomial, 0) + sign * factor
    return _extent(terms)


@lru_cache(REMEMBERED)
def _product(first: int, second: int) -> int:
    terms: dict[Monomial, int] = {}
    for one, a in _terms_of(first):
        for other, b in _terms_of(second):
            monomial = tuple(sorted((*one, *other), key=str))
            terms[monomial] = terms.get(monomial, 0) + a * b
    return _extent(terms)


@lru_cache(REMEMBERED)
def _quotient(dividend: int, divisor: int) -> int:
    """The quotient, rounded down; as little of it as possible is left as a division."""
    if smallest(divisor) <= 0:
        raise undecided(f"{dividend} divided by {divisor}", dividend, divisor)
    if is_ranged(divisor):
        divided = _divided(dividend, divisor)
        return _atom(Quotient(dividend, divisor)) if divided is None else divided[0]
    whole, rest = dict[Monomial, int](), dict[Monomial, int]()
    for monomial, factor in _terms_of(dividend):
        shared, left = (factor // divisor, factor % divisor)
        if not monomial or left == 0:
            whole[monomial], rest[monomial] = shared, left
        else:
            rest[monomial] = factor
    left_over = _extent(rest)
    if smallest(left_over) >= 0 and largest(left_over) < divisor:
        return _extent(whole)
    if isinstance(left_over, RangedExtent) and len(left_over.terms) == 1:
        ((monomial, factor),) = left_over.terms
        atom = monomial[0] if len(monomial) == factor == 1 else None
        if isinstance(atom, Quotient) and not is_ranged(atom.divisor):
            return _extent(whole) + _quotient(atom.dividend, atom.divisor * divisor)
    return _extent(whole) + _atom(Quotient(left_over, divisor))


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
    (monomial, factor), (leading, count) = (next(iter(_terms_of(n))) for n in (left, divisor))
    shared = without(monomial, leading)
    return 0 if shared is None else _extent({shared: factor // count})


def _remainder(dividend: int, divisor: int) -> int:
    if smallest(divisor) <= 0:
        raise undecided(f"{dividend} divided by {divisor}", dividend, divisor)
    if is_ranged(divisor):
        divided = _divided(dividend, divisor)
        return _atom(Remainder(dividend, divisor)) if divided is None else divided[1]
    rest = _extent({monomial: factor % divisor for monomial, factor in _terms_of(dividend)})
    low, high = _interval(rest)
    return rest if low >= 0 and high < divisor else _atom(Remainder(rest, divisor))


def _extreme(first: int, second: int, *, larger: bool) -> int:
    if at_least(second, first):
        return second if larger else first
    if at_least(first, second):
        return first if larger else second
    ordered = sorted((first, second), key=str)
    return _atom(Extreme(ordered[0], ordered[1], larger))


def _atom(atom: Atom) -> int:
    return _extent({(atom,): 1})


def _grouped(extent: int) -> str:
    """An extent as a factor: in parentheses if it is a sum or a product."""
    text = str(extent)
    return f"({text})" if is_ranged(extent) and not _WORD.match(text) else text


def _term_text(monomial: Monomial, factor: int) -> str:
    """A product as text; a dimension with steps is spelled as its extent where that is possible."""
    texts: list[str] = []
    for atom in monomial:
        if isinstance(atom, Dim) and atom.step > 1 and factor % atom.step == 0:
            factor //= atom.step
            texts.append(atom.spelled)
        else:
            bare = isinstance(atom, (Dim, Extreme)) and str(atom).find("//") < 0
            texts.append(str(atom) if bare else f"({atom})")
    if factor != 1 or not texts:
        texts.insert(0, str(factor))
    return "*".join(texts)


def walk_extents(value: object) -> Iterator[RangedExtent]:
    """Every ranged extent in a value: in tuples, lists and dictionaries too."""
    if isinstance(value, RangedExtent):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from walk_extents(part)
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from walk_extents(part)
