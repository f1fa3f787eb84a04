"""Sums of products of atoms: their bounds, and what is left of a product."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import prod
from typing import Any, TypeAlias

Product: TypeAlias = "tuple[Any, ...]"
"""A product of atoms, which have `bounds`."""
Sum: TypeAlias = "tuple[tuple[Product, int], ...]"
"""A sum of products, each with its coefficient."""

_MOST_CORNERS = 6
"""Atoms of a sum up to which its bounds are found at the corners of their ranges."""
MOST_RELATED = 3
"""Quotients and extremes in a sum up to which its bounds follow from what they are made of."""


def loose_bounds(terms: Sum) -> tuple[int, int]:
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


def _sum_at(terms: Sum, values: Mapping[Any, int]) -> int:
    return sum(factor * prod(values[atom] for atom in monomial) for monomial, factor in terms)


def _bounds_of_products(terms: Sum) -> tuple[int, int]:
    low = high = 0
    for monomial, factor in terms:
        least, most = factor, factor
        for atom in monomial:
            corners = [x * y for x in (least, most) for y in atom.bounds]
            least, most = min(corners), max(corners)
        low, high = low + least, high + most
    return low, high


def without(monomial: Product, factors: Product) -> Product | None:
    """A product divided by some of its atoms; None if it lacks one."""
    left = list(monomial)
    for atom in factors:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)
