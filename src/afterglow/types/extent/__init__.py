"""Extents: how long an axis is, as a number or as an expression over named dimensions.

A `RangedExtent` is an integer, its largest value, that knows the expression it stands for. Code
that asks for room (sizes, costs, addresses) needs to know nothing about it. Code that decides
something gets an answer that holds for every extent, or an `UndecidedExtentError`: a comparison
whose result the bounds of the dimensions do not tell raises rather than guesses.
"""

from afterglow.types.extent.arithmetic import (
    RangedExtent,
    UndecidedExtentError,
    at_least,
    larger_extent,
    ranged,
    smaller_extent,
    undecided,
    walk_extents,
)
from afterglow.types.extent.atoms import (
    LARGEST_EXTENT,
    Atom,
    Dim,
    Extents,
    Extreme,
    Quotient,
    Remainder,
    bind_extent,
    dims_of,
    has_room,
    inner_dim,
    is_ranged,
    largest,
    smallest,
)

__all__ = [
    "LARGEST_EXTENT",
    "Atom",
    "Dim",
    "Extents",
    "Extreme",
    "Quotient",
    "RangedExtent",
    "Remainder",
    "UndecidedExtentError",
    "at_least",
    "bind_extent",
    "dims_of",
    "has_room",
    "inner_dim",
    "is_ranged",
    "larger_extent",
    "largest",
    "ranged",
    "smaller_extent",
    "smallest",
    "undecided",
    "walk_extents",
]
