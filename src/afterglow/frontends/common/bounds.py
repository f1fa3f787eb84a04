"""What ways to write extents and bounds mean, where these may be ranged."""

from __future__ import annotations

from afterglow.types import TensorType
from afterglow.types.extent import (
    is_ranged,
    larger_extent,
    smaller_extent,
    undecided,
)


def extent_left(x: TensorType, rest: int) -> int:
    """What -1 stands for in a shape whose other extents make up `rest` elements."""
    if not is_ranged(rest) and rest == 0:
        return 0
    left = x.size % rest
    if is_ranged(left):
        raise undecided(f"whether the {x.size} elements of {x} are a multiple of {rest}", left)
    return x.size // rest


def slice_bounds(extent: int, start: int, end: int, step: int) -> tuple[int, int]:
    """The first element and the number of elements of a slice along an axis."""
    if not any(map(is_ranged, (extent, start, end))):
        start = max(start, -extent) if step < 0 else start
        chosen = range(*slice(start, end, step).indices(extent))
        return (chosen.start if chosen else 0), len(chosen)
    lowest = 0 if step > 0 else -1
    end = _counted(end, extent, lowest, extent + lowest)
    first = _counted(start, extent, 0, extent + lowest)
    length = end - first if step > 0 else first - end
    return first, larger_extent(0, (length + abs(step) - 1) // abs(step))


def _counted(bound: int, extent: int, low: int, high: int) -> int:
    """A bound counted from the first element, if it is negative, and limited."""
    if bound < 0:
        bound = bound + extent
    return smaller_extent(larger_extent(bound, low), high)
