"""Observations of values whose channels are scaled, from those of the values as they were.

A histogram of all channels does not tell which of them a number is from. Of all distributions of
the channels that have the observed ranges and means, those nearest to the histogram are taken:
it is cut to the range, and tilted by an exponential until the mean is right.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from afterglow.quantization.distribution import Distribution
from afterglow.quantization.observation import BINS, Observation, reach_of
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

TINY = 1e-30
CELLS = 64
"""Equal parts of the range of a channel, in which its distribution is estimated."""
MOST_CHANNELS = 64
"""Channels with the same factor whose distributions are estimated: of more, some of them."""
NEWTON_STEPS = 8
MOST_TILT = 60.0
"""The largest logarithm of the ratio that a tilt gives to the ends of a range."""
LARGEST_STEP = 8.0
"""How much a tilt changes at most at once."""


def scaled_observation(seen: Observation, exponents: Array) -> Observation:
    """What the same runs observe if the channels are divided by powers of two, about."""
    assert seen.channels is not None
    channels = seen.channels.scaled(exponents)
    low, high = float(channels.low.min()), float(channels.high.max())
    reach = reach_of(low, high)
    return replace(
        seen,
        low=low,
        high=high,
        average_low=low,  # how far each channel reached in single runs is not known
        average_high=high,
        reach=reach,
        counts=_counts(seen, exponents, reach),
        channels=channels,
    )


def channel_powers(seen: Observation) -> Array:
    """About the mean square of each channel."""
    estimated = _Channels.of(seen)
    left, right = estimated.edges[:, :-1], estimated.edges[:, 1:]
    squares = (left**2 + left * right + right**2) / 3
    return np.asarray((estimated.shares * squares).sum(1))


def _counts(seen: Observation, exponents: Array, reach: float) -> Array:
    """The histogram over [-reach, reach) of channels that are divided by powers of two."""
    exponents, some, weights = _chosen(exponents)
    estimated = _Channels.of(seen, some)
    edges = np.linspace(-reach, reach, BINS + 1)
    below = np.cumsum(estimated.shares, 1) * weights[:, None]
    counts = np.zeros(BINS)
    for own, exponent, shares in zip(estimated.edges, exponents, below, strict=True):
        counts += np.diff(np.interp(edges, np.ldexp(own, -exponent), np.append(0.0, shares)))
    counts[BINS // 2] += estimated.zeros @ weights
    whole = np.rint(np.cumsum(counts) * seen.total)
    return np.diff(whole, prepend=0).astype(np.int64)  # so that thin tails are not rounded away


def _chosen(exponents: Array) -> tuple[Array, Array, Array]:
    """Some channels of each exponent: their exponents, places, and what share they stand for."""
    places = []
    for exponent in np.unique(exponents):
        own = np.flatnonzero(exponents == exponent)
        places.append(own[:: -(-len(own) // MOST_CHANNELS)])
    weights = [
        np.full(len(own), (exponents == exponents[own[0]]).mean() / len(own)) for own in places
    ]
    some = np.concatenate(places)
    return exponents[some], some, np.concatenate(weights)


@dataclass(frozen=True, eq=False)
class _Channels:
    """The distributions of channels, as they are estimated."""

    edges: Array
    """Those of the cells, [channels, CELLS + 1]."""
    shares: Array
    """The share of each cell."""
    zeros: Array
    """The share of zeros, which are in no cell."""

    @staticmethod
    def of(seen: Observation, some: Array | slice = slice(None)) -> _Channels:
        """Those of the channels of a value."""
        assert seen.channels is not None
        parts = (seen.channels.low, seen.channels.high, seen.channels.mean)
        low, high, mean = (part[some].astype(np.float64) for part in parts)
        edges = np.linspace(low, high, CELLS + 1, axis=1)
        numbers = Distribution.of(seen)
        below = np.concatenate([[0.0], np.cumsum(numbers.counts - numbers.zeros)])
        base = np.diff(np.interp(edges, numbers.edges, below), axis=1)
        has_zero = (low <= 0) & (high >= 0)
        base = np.column_stack([base, numbers.zeros.sum() * has_zero])
        base[:, :-1] += 1e-6 * base.sum(1, keepdims=True) + TINY  # where nothing was counted
        middles = np.column_stack([(edges[:, :-1] + edges[:, 1:]) / 2, np.zeros(len(low))])
        widths = np.maximum(high - low, TINY)
        places = np.clip((middles - low[:, None]) / widths[:, None], 0, 1)
        shares = _tilted(base, places, np.clip((mean - low) / widths, 0, 1))
        shares[:, [0, -2]] += len(seen.channels.low) / max(seen.total, 1)  # ends that were observed
        shares = _normalised(shares)
        return _Channels(edges, shares[:, :-1], shares[:, -1])


def _tilted(base: Array, places: Array, wanted: Array) -> Array:
    """Rows of shares like those of the base, tilted so that the mean place is as wanted."""
    tilt = np.zeros((len(wanted), 1))
    around = places - wanted[:, None]
    for _ in range(NEWTON_STEPS):
        shares = _normalised(base * np.exp(tilt * around))
        mean = (shares * around).sum(1, keepdims=True)
        spread = (shares * np.square(around - mean)).sum(1, keepdims=True)
        step = np.clip(-mean / np.maximum(spread, 1e-6), -LARGEST_STEP, LARGEST_STEP)
        tilt = np.clip(tilt + step, -MOST_TILT, MOST_TILT)
    return _normalised(base * np.exp(tilt * around))


def _normalised(shares: Array) -> Array:
    return np.asarray(shares / np.maximum(shares.sum(1, keepdims=True), TINY))
