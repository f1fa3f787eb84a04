"""How many lanes vectors have."""

from __future__ import annotations

from afterglow.backends.cpu.target import Target
from afterglow.types import DType
from afterglow.types.extent import largest


def full_lanes(target: Target, dtype: DType) -> int:
    """How many elements of a type fill a vector."""
    return max(1, target.vector_bits // dtype.bits)


def fitting_lanes(lanes: int, needed: int) -> int:
    """The least power of two that covers an extent, at most the number of lanes."""
    while lanes > 1 and lanes // 2 >= largest(needed):
        lanes //= 2
    return lanes
