"""The part of a histogram that keeps most of its information when it is quantized.

Numbers outside the part saturate, so they count at its ends; the numbers in it that share a level
can no longer be told apart. The part is best whose distribution then has the least divergence
(Kullback-Leibler) from what it was.
"""

from __future__ import annotations

import numpy as np

from afterglow.types import Array

COARSE = 64
"""Windows that are tried first; then those between the best and its neighbours."""
SMOOTHING = 1e-4
"""The count of a bin that is empty in the quantized histogram only."""


def best_symmetric(counts: Array, zero: int, levels: int) -> tuple[int, int]:
    """The window with the bin `zero` in its middle, as its first bin and the one after its last."""
    used = np.flatnonzero(counts)
    reach = max(zero - used[0], used[-1] + 1 - zero)
    halves = np.arange(reach, min(levels // 2, reach) - 1, -1)
    return _best(counts, zero - halves, zero + halves, levels)


def best_power_of_two(counts: Array, zero: int, levels: int) -> tuple[int, int]:
    """The same, among halves, quarters and so on of the whole histogram."""
    halves = zero >> np.arange(max(1, (2 * zero // levels).bit_length()))
    return _best(counts, zero - halves, zero + halves, levels)


def best_asymmetric(counts: Array, zero: int, levels: int) -> tuple[int, int]:
    """The window, with zero inside or at an end, found by shrinking the side that loses less."""
    used = np.flatnonzero(counts)
    first, last = min(int(used[0]), zero), max(int(used[-1]) + 1, zero)
    lost = [np.cumsum(counts[first:zero]), np.cumsum(counts[zero:last][::-1])]
    order = np.argsort(np.concatenate(lost), kind="stable")
    left = np.concatenate([[0], np.cumsum(order < zero - first)])
    starts = first + left
    stops = last - (np.arange(len(left)) - left)
    enough = max(1, int(np.count_nonzero(stops - starts >= levels)))
    return _best(counts, starts[:enough], stops[:enough], levels)


def _best(counts: Array, starts: Array, stops: Array, levels: int) -> tuple[int, int]:
    """The window with the least divergence, of windows that get smaller."""
    every = -(-len(starts) // COARSE)
    coarse = divergences(counts, starts[::every], stops[::every], levels)
    middle = int(np.argmin(coarse)) * every
    near = slice(max(0, middle - every + 1), middle + every)
    found = near.start + int(np.argmin(divergences(counts, starts[near], stops[near], levels)))
    return int(starts[found]), int(stops[found])


def divergences(counts: Array, starts: Array, stops: Array, levels: int) -> Array:
    """For each window, the divergence between its bins and the same as seen through the levels."""
    below = _before(counts)
    total = below[-1]
    borders = starts[:, None] + np.arange(levels + 1) * (stops - starts)[:, None] // levels
    inside = np.diff(below[borders])
    used = np.diff(_before(counts > 0)[borders])
    saturated = inside.copy()
    surprise = _before(_x_log_x(counts))
    own = surprise[stops] - surprise[starts]
    ends = ((0, starts, below[starts]), (-1, stops - 1, total - below[stops]))
    for level, bins, outside in ends:
        saturated[:, level] += outside
        used[:, level] += (counts[bins] == 0) & (outside > 0)
        own += _x_log_x(counts[bins] + outside) - _x_log_x(counts[bins])
    quantized = np.maximum(inside, SMOOTHING) / np.maximum(used, 1)
    cross = (saturated * np.log(quantized)).sum(1)
    kept = below[stops] - below[starts]
    result = (own - cross) / total - np.log(total) + np.log(np.maximum(kept, SMOOTHING))
    return np.where(kept > 0, result, np.inf)


def _before(counts: Array) -> Array:
    """The sum before each index."""
    return np.concatenate([[0.0], np.cumsum(counts, dtype=np.float64)])


def _x_log_x(x: Array) -> Array:
    return np.asarray(x * np.log(np.maximum(x, 1e-300)))
