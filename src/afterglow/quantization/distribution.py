"""How the numbers of a value are distributed, as far as a histogram tells."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from afterglow.quantization.observation import BINS, Observation
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array


@dataclass(frozen=True, eq=False)
class Distribution:
    """Numbers of which so many are spread evenly between each two neighbouring edges."""

    edges: Array
    """f64[n + 1], ascending; the first and the last are the range."""
    counts: Array
    """f64[n]."""
    zeros: Array
    """f64[n]: how many of them are zero, and so always exact."""

    @staticmethod
    def of(observation: Observation) -> Distribution:
        """The distribution of the numbers observed, without the bins beyond their range."""
        first, last = (bin_of(end, observation) for end in (observation.low, observation.high))
        edges = (np.arange(first, last + 2) - BINS // 2) * observation.bin_width
        edges[0], edges[-1] = observation.low, observation.high
        counts = observation.counts[first : last + 1].astype(np.float64)
        zeros = np.zeros(len(counts))
        if first <= BINS // 2 <= last:
            zeros[BINS // 2 - first] = zeros_among(counts, BINS // 2 - first)
        return Distribution(edges, counts, zeros)

    @cached_property
    def total(self) -> float:
        """How many numbers there are."""
        return float(self.counts.sum())

    @cached_property
    def power(self) -> float:
        """The sum of the squares."""
        left, right = self.edges[:-1], self.edges[1:]
        squares = (left**2 + left * right + right**2) / 3
        return float(squares @ (self.counts - self.zeros))

    @cached_property
    def below(self) -> Array:
        """How many numbers are below each edge."""
        return np.concatenate([[0.0], np.cumsum(self.counts)])

    def share_outside(self, low: float, high: float) -> float:
        """The share of numbers outside a range."""
        if not self.total:
            return 0.0
        below, inside = np.interp([low, high], self.edges, self.below, left=0.0, right=self.total)
        return float(below + self.total - inside) / self.total

    def quantile(self, share: float) -> float:
        """The number that this share of the numbers does not exceed."""
        wanted = share * self.total
        place = min(int(np.searchsorted(self.below[1:], wanted)), len(self.counts) - 1)
        part = (wanted - self.below[place]) / max(self.counts[place], 1.0)
        left, right = self.edges[place], self.edges[place + 1]
        return float(left + min(part, 1.0) * (right - left))

    def magnitude_quantile(self, share: float) -> float:
        """The magnitude that this share of the numbers does not exceed."""
        magnitudes = np.linspace(0, np.abs(self.edges[[0, -1]]).max(), BINS)
        above = np.interp(magnitudes, self.edges, self.below, left=0.0, right=self.total)
        below = np.interp(-magnitudes, self.edges, self.below, left=0.0, right=self.total)
        place = np.searchsorted(above - below, share * self.total)
        return float(magnitudes[min(int(place), BINS - 1)])

    def squared_errors(self, scales: Array, offsets: Array, limits: tuple[int, int]) -> Array:
        """For each scale and offset, the sum of squared differences that quantizing makes.

        The integral of (x - q s)^2 between edges is exact: q s^3 / 12 + (x - q s)^3 / 3 is an
        antiderivative, across the borders of steps and beyond the limits as well.
        """
        scale = scales.astype(np.float64)[:, None]
        least, greatest = (limit - offsets[:, None] for limit in limits)
        steps = np.clip(np.rint(self.edges / scale), least, greatest)
        rest = self.edges - steps * scale
        squares = rest * rest
        widths = np.diff(self.edges)
        integral = np.diff(steps * (scale**3 / 12) + squares * rest / 3)
        means = integral / np.where(widths > 0, widths, 1)
        if not widths.all():  # one number, again and again
            means = np.where(widths > 0, means, squares[:, 1:])
        errors = np.einsum("kn,n->k", means, self.counts - self.zeros)
        return np.asarray(np.maximum(errors, 0))

    def merged(self, bins: int) -> Distribution:
        """The same with at most about as many bins, each of several neighbours."""
        by = -(-len(self.counts) // bins)
        if by <= 1:
            return self
        starts = np.arange(0, len(self.counts), by)
        edges = self.edges[[*starts, -1]]
        counts, zeros = (np.add.reduceat(part, starts) for part in (self.counts, self.zeros))
        return Distribution(edges, counts, zeros)


def bin_of(x: float, observation: Observation) -> int:
    """The bin in which a number is counted."""
    place = np.floor(x / observation.bin_width) + BINS // 2
    return int(np.clip(place, 0, BINS - 1))


def zeros_among(counts: Array, place: int) -> float:
    """How many numbers of a bin are zero: as many as it has more than its neighbours.

    Rectifiers and masks write zeros; nothing else makes the bin of zero stand out like that.
    """
    beside = [*counts[max(0, place - 1) : place], *counts[place + 1 : place + 2]]
    return max(0.0, float(counts[place] - max(beside, default=0.0)))
