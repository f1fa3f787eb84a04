"""Second moments of what layers read: sums over many runs, in two halves, of bounded size.

A deep layer has its moments in blocks along the depth: inputs of different blocks are taken to be
independent, so that memory grows with the depth and not with its square.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any, TypeAlias

import numpy as np

from afterglow.types import Array

MOST_BYTES = 1 << 30
"""What the moments of all layers of a model take at most, but for the smallest blocks."""
BLOCKS = (2048, 1024, 512, 256, 128)
"""Extents of blocks: multiples of the groups of weights that share a scale."""
FEWEST = 8
"""Rows that were read must be more than an eighth of the inputs: few tell nothing of others."""
HALVES = 2
"""Runs alternate between halves: what is chosen by one can be checked by the other."""

Blocks: TypeAlias = Sequence[Array]
"""E[x xT] in blocks along the depth: for each block f64[groups, inputs, inputs]."""


def block_extent(layers: Iterable[tuple[int, int]], most_bytes: int = MOST_BYTES) -> int:
    """The largest extent of blocks with which the moments of all layers fit into memory.

    Layers are given by their groups and depth.
    """
    known = [*layers]
    for extent in BLOCKS:
        sizes = sum(groups * depth * min(depth, extent) for groups, depth in known)
        if HALVES * 4 * sizes <= most_bytes:
            return extent
    return BLOCKS[-1]


def slices(depth: int, extent: int) -> list[slice]:
    """The blocks of a depth."""
    return [slice(start, min(start + extent, depth)) for start in range(0, depth, extent)]


class InputMoments:
    """Sums of x xT over what a layer reads, x being [depth] of each of its groups."""

    def __init__(self, groups: int, depth: int, extent: int = BLOCKS[0]) -> None:
        self.groups = groups
        self.depth = depth
        self.slices = slices(depth, extent)
        sizes = [part.stop - part.start for part in self.slices]
        self._sums = [
            [np.zeros((groups, size, size), np.float32) for size in sizes] for _ in range(HALVES)
        ]
        self._totals = [np.zeros((groups, depth), np.float64) for _ in range(HALVES)]
        self._counts = [0] * HALVES
        self._runs = 0

    def add(self, rows: Array) -> None:
        """Add what a run read, [groups, samples, depth].

        Runs go to the halves in turn; the first one is divided, as it may be the only one.
        """
        if self._runs == 0:
            for half in range(HALVES):
                self._add(half, rows[:, half::HALVES])
        else:
            self._add(self._runs % HALVES, rows)
        self._runs += 1

    def _add(self, half: int, rows: Array) -> None:
        for part, total in zip(self.slices, self._sums[half], strict=True):
            x = rows[..., part]
            total += np.matmul(x.transpose(0, 2, 1), x)
        self._totals[half] += rows.sum(1, dtype=np.float64)
        self._counts[half] += rows.shape[1]

    @property
    def is_enough(self) -> bool:
        """Whether so much was read that weights can be rounded by it."""
        extent = max((part.stop - part.start for part in self.slices), default=0)
        return FEWEST * sum(self._counts) >= extent

    @property
    def mean(self) -> Array:
        """The mean of what is read, [groups, depth]."""
        return _mean(sum(self._totals), sum(self._counts))

    def half(self, half: int, *, centred: bool = False) -> Blocks:
        """The moments of one half of the runs; if centred, of what is read less its mean."""
        count = self._counts[half]
        return self._blocks(self._sums[half], self._totals[half], count, centred=centred)

    def whole(self, *, centred: bool = False) -> Blocks:
        """The moments of all runs; if centred, of what is read less its mean."""
        sums = [sum(parts) for parts in zip(*self._sums, strict=True)]
        return self._blocks(sums, sum(self._totals), sum(self._counts), centred=centred)

    def _blocks(self, sums: Sequence[Any], total: Any, count: int, *, centred: bool) -> Blocks:
        blocks = [_mean(part, count) for part in sums]
        if centred:
            mean = _mean(total, count)
            for block, part in zip(blocks, self.slices, strict=True):
                block -= mean[:, part, None] * mean[:, None, part]
        return blocks

    def divided(self, channels: Array) -> InputMoments:
        """The moments if what the layer reads is divided, channel by channel."""
        other = copy(self)
        taps = self.groups * self.depth // len(channels)
        by_group = (1 / channels).astype(np.float32).reshape(self.groups, 1, -1)
        inverse = np.repeat(by_group, taps, 1).reshape(self.groups, self.depth)
        parts = [inverse[:, part] for part in self.slices]
        other._sums = [
            [s * p[:, :, None] * p[:, None] for s, p in zip(sums, parts, strict=True)]
            for sums in self._sums
        ]
        other._totals = [total * inverse for total in self._totals]
        return other


def row_errors(difference: Array, blocks: Blocks) -> Array:
    """The mean squared error of each row, for weights that differ by [groups, rows, depth]."""
    errors, start = np.zeros(difference.shape[:2]), 0
    for block in blocks:
        part = difference[..., start : start + block.shape[-1]].astype(np.float64)
        errors += np.einsum("grd,grd->gr", part @ block, part)
        start += block.shape[-1]
    return errors


def _mean(total: Any, count: int) -> Array:
    return np.asarray(total, np.float64) / max(1, count)
