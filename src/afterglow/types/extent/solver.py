"""Learning the extents of dimensions from the values of expressions."""

from __future__ import annotations

from math import prod

from afterglow.types.extent import RangedExtent, dims_of
from afterglow.types.extent.bounds import without


def solve(expected: int, value: int, known: dict[str, int]) -> bool:
    """Learn the extent of a dimension from the value of an expression; whether it was possible.

    Of the dimensions in it, all but one must be known, and that one must be in it as a multiple.
    """
    missing = [dim for dim in dims_of(expected) if dim.name not in known]
    if not missing:
        return True
    if len(missing) > 1 or not isinstance(expected, RangedExtent):
        return False
    (dim,) = missing
    rest, factor = 0, 0
    for monomial, count in expected.terms:
        if not any(dim in atom.dims for atom in monomial):
            rest += count * prod(atom.value(known) for atom in monomial)
            continue
        others = without(monomial, (dim,))
        if others is None or any(dim in atom.dims for atom in others):
            return False
        factor += count * prod(atom.value(known) for atom in others)
    if factor == 0 or (value - rest) % factor:
        return False
    known[dim.name] = (value - rest) // factor * dim.step
    return True
