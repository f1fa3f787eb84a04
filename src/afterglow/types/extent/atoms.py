"""What expressions are made of: dimensions, and divisions and extremes of expressions.

An `Expression` is a sum of products of atoms, which are computed from expressions in turn. What
atoms ask of those is here; their arithmetic is in `arithmetic.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from math import prod
from typing import Any, TypeAlias

from afterglow.support.lazy_dataclass import dataclass

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_RESERVED = ("min", "max", "inf", "nan", "true", "false", "none")

_INNER = "\0"
"""What the names of dimensions end with that code computes."""

LARGEST_EXTENT = 2**31 - 1
"""The largest extent there can be: the bound of a dimension that is free."""

Extents: TypeAlias = Mapping[str, int]
"""The extents of dimensions in one run, by name."""
Atom: TypeAlias = "Dim | Quotient | Remainder | Extreme"
"""What expressions are sums of products of."""
Monomial: TypeAlias = "tuple[Atom, ...]"
"""A product of atoms, in the order of their texts; the empty one is 1."""
Term: TypeAlias = "tuple[Monomial, int]"
"""A product with its coefficient."""
Terms: TypeAlias = "tuple[Term, ...]"
"""A sum of products, in the order of their texts: a normal form."""


class Expression(int):
    """A sum of products of atoms; as an integer, its largest value."""

    terms: Terms
    low: int

    @cached_property
    def dims(self) -> tuple[Dim, ...]:
        """The dimensions that it depends on, by name."""
        found = {dim for monomial, _ in self.terms for atom in monomial for dim in atom.dims}
        return _by_name(found)

    def bind(self, extents: Extents) -> int:
        """Its value in one run."""
        return sum(
            factor * prod(atom.value(extents) for atom in monomial)
            for monomial, factor in self.terms
        )

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__

    @cached_property
    def _text(self) -> str:
        text = ""
        for monomial, factor in self.terms:
            sign = " - " if factor < 0 else " + "
            alone = factor == len(monomial) == 1
            term = str(monomial[0]) if alone else _term_text(monomial, abs(factor))
            text += (sign if text else sign.strip(" +")) + term
        return text


def inner_dim(name: str, high: int, low: int = 0) -> Dim:
    """A dimension that code computes, for values with room for the largest extent."""
    return Dim(name + _INNER, low, high)


def has_room(shape: Sequence[int]) -> bool:
    """Whether memory for a value has room for an element, though it may have none in a run."""
    return all(
        smallest(extent) > 0
        or (largest(extent) > 0 and all(dim.name.endswith(_INNER) for dim in dims_of(extent)))
        for extent in shape
    )


def is_ranged(extent: object) -> bool:
    """Whether an extent depends on dimensions."""
    return isinstance(extent, Expression)


def largest(extent: int) -> int:
    """The largest value of an extent, as a plain number."""
    return int(extent)


def smallest(extent: int) -> int:
    """The smallest value of an extent, as a plain number."""
    return extent.low if isinstance(extent, Expression) else extent


def interval(extent: int) -> tuple[int, int]:
    """The smallest and the largest value of an extent."""
    return smallest(extent), largest(extent)


def bind_extent(extent: int, extents: Extents) -> int:
    """The value of an extent in one run, as a plain number."""
    return extent.bind(extents) if isinstance(extent, Expression) else extent


def terms_of(extent: int) -> Terms:
    """An extent as a sum of products; a number is a multiple of the empty one."""
    return extent.terms if isinstance(extent, Expression) else (((), extent),)


def dims_of(*given: int) -> tuple[Dim, ...]:
    """The dimensions that extents depend on, by name."""
    return _by_name({dim for each in given if isinstance(each, Expression) for dim in each.dims})


def _by_name(dims: set[Dim]) -> tuple[Dim, ...]:
    return tuple(sorted(dims, key=lambda dim: dim.name))


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
    def dims(self) -> tuple[Dim, ...]:
        """The dimensions that it depends on, by name."""
        return dims_of(*self.parts)

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

    @cached_property
    def dims(self) -> tuple[Dim, ...]:
        """The dimension itself."""
        return (self,)

    def value(self, extents: Extents) -> int:
        """The number of steps in one run."""
        return extents[self.name] // self.step

    @property
    def is_free(self) -> bool:
        """Whether it has no bounds but those that all extents have."""
        return self.high == LARGEST_EXTENT

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
        corners = [a // b for a in interval(self.dividend) for b in interval(self.divisor)]
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
        return 0, interval(self.divisor)[1] - 1

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
        (a, b), (c, d) = interval(self.first), interval(self.second)
        return (max(a, c), max(b, d)) if self.larger else (min(a, c), min(b, d))

    def value(self, extents: Extents) -> int:
        """The value in one run."""
        first, second = bind_extent(self.first, extents), bind_extent(self.second, extents)
        return max(first, second) if self.larger else min(first, second)

    @property
    def parts(self) -> tuple[int, ...]:
        """The extents that it is computed from."""
        return self.first, self.second

    @cached_property
    def text(self) -> str:
        """The expression, as texts spell it."""
        return f"{'max' if self.larger else 'min'}({self.first}, {self.second})"


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
