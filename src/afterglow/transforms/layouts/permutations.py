"""Permutations of axes as NumPy's transpose takes them: axis i of the result is axis perm[i]."""

from __future__ import annotations

from collections.abc import Sequence

Perm = tuple[int, ...]


def is_identity(perm: Sequence[int]) -> bool:
    """Whether it is the identity."""
    return all(axis == place for place, axis in enumerate(perm))


def composed(first: Sequence[int], then: Sequence[int]) -> Perm:
    """One permutation that does what two do, one after the other."""
    return tuple(first[axis] for axis in then)


def inverse(perm: Sequence[int]) -> Perm:
    """The permutation that undoes it."""
    places = [0] * len(perm)
    for place, axis in enumerate(perm):
        places[axis] = place
    return tuple(places)


def keeps_order(perm: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether it keeps the order of elements: only axes of extent 1 move."""
    long = [axis for axis in perm if shape[axis] != 1]
    return long == sorted(long)


def swaps_last_two(perm: Sequence[int]) -> bool:
    """Whether it transposes matrices and does nothing else."""
    last = len(perm) - 1
    return last >= 1 and tuple(perm) == (*range(last - 1), last, last - 1)
