"""Orders of axes: in which of them a tensor of a file holds a value of the graph.

A layout is a permutation. The tensor that holds value v in layout p is `transpose(v, p)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

Layout: TypeAlias = tuple[int, ...]


def plain(rank: int) -> Layout:
    """The order that the graph has."""
    return tuple(range(rank))


def channels_first(rank: int) -> Layout:
    """The last axis of the graph second, as ONNX has the channels of images."""
    return (0, rank - 1, *range(1, rank - 1))


def swapped(rank: int) -> Layout:
    """The last two axes changed: the transpose of matrices."""
    return (*range(rank - 2), rank - 1, rank - 2)


def between(held: Layout, wanted: Layout) -> Layout:
    """The permutation that makes a tensor of the one layout one of the other."""
    return tuple(held.index(axis) for axis in wanted)


def after_transpose(held: Layout, perm: Layout) -> Layout:
    """The layout in which the tensor that holds v holds transpose(v, perm)."""
    return tuple(perm.index(axis) for axis in held)


def moves_nothing(perm: Layout, shape: Sequence[int]) -> bool:
    """Whether a transpose of a tensor of that shape leaves its elements in order."""
    moved = [axis for axis in perm if shape[axis] != 1]
    return moved == sorted(moved)
