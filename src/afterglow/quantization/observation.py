"""What runs of a model observe of one value: its range, histogram, and ranges of its channels."""

from __future__ import annotations

import math
from dataclasses import field, replace

import numpy as np

from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

BINS = 4096
"""Equal bins of a histogram, over [-reach, reach)."""
AVERAGE_WEIGHT = 0.1
"""The weight of one more run in a moving average."""
LEAST_REACH, LARGEST_REACH = 2.0**-100, 2.0**127
"""Bounds of the reach: widths of bins and their reciprocals are normal numbers of type f32."""


@dataclass(frozen=True, eq=False)
class ChannelRanges:
    """Least, greatest and mean number of each channel (index of the last axis), as f32 vectors."""

    low: Array
    high: Array
    mean: Array

    @staticmethod
    def of(array: Array) -> ChannelRanges | None:
        """The ranges of one array's channels; None if it has no channels, or no elements."""
        x = np.asarray(array, np.float32)
        if x.ndim < 2 or not x.size:
            return None
        rows = x.reshape(-1, x.shape[-1])
        mean = rows.mean(0, dtype=np.float64).astype(np.float32)
        return ChannelRanges(rows.min(0), rows.max(0), mean)

    def merge(self, other: ChannelRanges, share: float) -> ChannelRanges | None:
        """The ranges of both, if the channels pair up; `share` of the elements are the other's."""
        if self.low.shape != other.low.shape:
            return None
        wide = self.mean.astype(np.float64)
        mean = wide + share * (other.mean - wide)
        return ChannelRanges(
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            mean.astype(np.float32),
        )

    def scaled(self, exponents: Array) -> ChannelRanges:
        """The ranges of channels that are divided by powers of two."""
        parts = (self.low, self.high, self.mean)
        return ChannelRanges(*(np.ldexp(part, -exponents) for part in parts))


@dataclass(frozen=True, eq=False)
class Observation:
    """What some runs observe of one value.

    A number x is counted in bin floor(x BINS / 2 reach) + BINS / 2; what lies outside, in the
    bins at the ends. The sum of the counts is less than the number of elements where a histogram
    is one of samples.
    """

    low: float
    high: float
    average_low: float
    """Moving average of the least number of each run."""
    average_high: float
    """Moving average of the greatest number of each run."""
    reach: float
    """A power of two, above all magnitudes but those beyond `LARGEST_REACH`."""
    counts: Array = field(repr=False)
    """Numbers in each bin, as i64."""
    channels: ChannelRanges | None = field(default=None, repr=False)
    runs: int = 1

    @staticmethod
    def of(array: Array) -> Observation:
        """What one run observes of a value that is this array.

        NaN and infinities are not counted, but show in `low` and `high`.
        """
        x = np.asarray(array, np.float32)
        if not x.size:
            return Observation(0.0, 0.0, 0.0, 0.0, LEAST_REACH, np.zeros(BINS, np.int64))
        low, high = float(x.min()), float(x.max())
        reach = reach_of(low, high)
        counts = histogram(x, reach)
        return Observation(low, high, low, high, reach, counts, ChannelRanges.of(x))

    @property
    def is_finite(self) -> bool:
        """Whether no run observed NaN or an infinity."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def total(self) -> int:
        """How many numbers the histogram counts."""
        return int(self.counts.sum())

    @property
    def bin_width(self) -> float:
        """How far a bin of the histogram spans."""
        return 2 * self.reach / BINS

    def merge(self, other: Observation) -> Observation:
        """What the runs of this observation, and then those of another, observe."""
        if not other.total or not self.total:
            return replace(self if self.total else other, runs=self.runs + other.runs)
        reach = max(self.reach, other.reach)
        counts = fold(self.counts, self.reach, reach) + fold(other.counts, other.reach, reach)
        return Observation(
            float(np.minimum(self.low, other.low)),
            float(np.maximum(self.high, other.high)),
            _average(self.average_low, other.average_low, other.runs),
            _average(self.average_high, other.average_high, other.runs),
            reach,
            counts,
            self._merge_channels(other),
            self.runs + other.runs,
        )

    def _merge_channels(self, other: Observation) -> ChannelRanges | None:
        if self.channels is None or other.channels is None:
            return None
        return self.channels.merge(other.channels, other.total / (self.total + other.total))


def reach_of(low: float, high: float) -> float:
    """The power of two above the magnitudes of a range, within the bounds of the reach."""
    magnitude = max(abs(low), abs(high))
    if not math.isfinite(magnitude):
        return LARGEST_REACH
    _, exponent = math.frexp(max(magnitude, LEAST_REACH / 2))
    return min(math.ldexp(1.0, exponent), LARGEST_REACH)


def histogram(x: Array, reach: float) -> Array:
    """Counts of the finite numbers of x in `BINS` bins over [-reach, reach), outliers at the ends.

    Every step is exact, but where a number is so small that only its sign decides its bin.
    """
    finite = x[np.isfinite(x)]
    places = np.floor(finite.astype(np.float64) * (BINS / 2 / reach)) + BINS // 2
    return np.bincount(np.clip(places, 0, BINS - 1).astype(np.int64), minlength=BINS)


def fold(counts: Array, reach: float, wider: float) -> Array:
    """The histogram over [-wider, wider) of what is counted over [-reach, reach)."""
    if wider == reach:
        return counts
    shift = round(math.log2(wider / reach))
    places = (np.arange(BINS) - BINS // 2 >> min(shift, 62)) + BINS // 2
    folded = np.zeros(BINS, np.int64)
    np.add.at(folded, places, counts)
    return folded


def _average(first: float, second: float, runs: int) -> float:
    """A moving average after that many more runs, which have an average of their own."""
    kept = (1 - AVERAGE_WEIGHT) ** runs
    return kept * first + (1 - kept) * second
