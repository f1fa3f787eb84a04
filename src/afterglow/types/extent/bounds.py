"""Bounds of sums of products of atoms, and what is left of a product."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import prod

from afterglow.types.extent.atoms import (
    Atom,
    Extreme,
    Monomial,
    Quotient,
    Term,
    Terms,
    is_ranged,
    terms_of,
)

_MOST_CORNERS = 6
"""Atoms of a sum up to which its bounds are found at the corners of their ranges."""
_MOST_RELATED = 3
"""Quotients and extremes in a sum up to which its bounds follow from what they are made of."""


def bounds_of(terms: Terms, depth: int = 2) -> tuple[int, int]:
    """Bounds of a sum: those of its products, and of what follows from how atoms were made."""
    low, high = _loose_bounds(terms)
    made = [term for term in terms if len(term[0]) == 1 and term[0][0].parts]
    for term in made if depth and len(made) <= _MOST_RELATED else ():
        if _varies_with(term[0][0], terms):
            rest = [other for other in terms if other is not term]
            least, most = _bounds_around(term, rest, depth - 1)
            low, high = max(low, least), min(high, most)
    return low, high


def _varies_with(atom: Atom, terms: Terms) -> bool:
    """Whether other products of a sum depend on the dimensions that an atom is computed from."""
    others = [part for monomial, _ in terms for part in monomial if part != atom]
    return any(not {*atom.dims}.isdisjoint(other.dims) for other in others)


def _bounds_around(term: Term, rest: list[Term], depth: int) -> tuple[int, int]:
    """Bounds of a sum with a multiple of one atom, from what that atom is computed from.

    The smaller of two extents is one of them, and d * (x // d) is x or up to d - 1 less.
    """
    ((atom,), factor) = term
    if isinstance(atom, Extreme):
        sums = (_with_multiple(rest, 1, part, factor) for part in atom.parts)
        lows, highs = zip(*(bounds_of(terms, depth) for terms in sums), strict=True)
        choose = max if atom.larger is (factor > 0) else min
        return choose(lows), choose(highs)
    if isinstance(atom, Quotient) and not is_ranged(atom.divisor):
        divisor = atom.divisor
        low, high = bounds_of(_with_multiple(rest, divisor, atom.dividend, factor), depth)
        less = factor * (divisor - 1)
        return -(-(low - max(less, 0)) // divisor), (high - min(less, 0)) // divisor
    return _loose_bounds((term, *rest))


def _with_multiple(rest: list[Term], times: int, extent: int, factor: int) -> Terms:
    """A sum a number of times, and so many times an extent."""
    total = {monomial: times * count for monomial, count in rest}
    for monomial, count in terms_of(extent):
        total[monomial] = total.get(monomial, 0) + factor * count
    return tuple((monomial, count) for monomial, count in total.items() if count)


def _loose_bounds(terms: Terms) -> tuple[int, int]:
    """The least and the largest value of a sum, as if its atoms did not vary together.

    Where no atom is multiplied by itself, and there are few, both are at corners of their ranges.
    Otherwise products are bounded one by one.
    """
    atoms = dict.fromkeys(atom for monomial, _ in terms for atom in monomial)
    linear = all(len(set(monomial)) == len(monomial) for monomial, _ in terms)
    if len(terms) > 1 and linear and len(atoms) <= _MOST_CORNERS:
        corners = product(*(atom.bounds for atom in atoms))
        sums = [_sum_at(terms, dict(zip(atoms, corner, strict=True))) for corner in corners]
        return min(sums), max(sums)
    return _bounds_of_products(terms)


def _sum_at(terms: Terms, values: Mapping[Atom, int]) -> int:
    return sum(factor * prod(values[atom] for atom in monomial) for monomial, factor in terms)


def _bounds_of_products(terms: Terms) -> tuple[int, int]:
    low = high = 0
    for monomial, factor in terms:
        least, most = factor, factor
        for atom in monomial:
            corners = [x * y for x in (least, most) for y in atom.bounds]
            least, most = min(corners), max(corners)
        low, high = low + least, high + most
    return low, high


def without(monomial: Monomial, factors: Monomial) -> Monomial | None:
    """A product divided by some of its atoms; None if it lacks one."""
    left = list(monomial)
    for atom in factors:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)
