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
from afterglow.types import Array

MERGED = 256
"""Bins in which the distributions of channels are estimated."""
MOST_CHANNELS = 192
"""Channels whose distributions are estimated: of more, some, evenly spread."""
ROUNDS = 2
"""How often the channels together are made to fit the histogram."""
NEWTON_STEPS = 5
MOST_TILT = 60.0
"""The largest logarithm of the ratio that a tilt gives to the ends of a range."""


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


def _counts(seen: Observation, exponents: Array, reach: float) -> Array:
    """The histogram over [-reach, reach) of channels that are divided by powers of two."""
    numbers = Distribution.of(seen).merged(MERGED)
    assert seen.channels is not None
    some = slice(None, None, -(-len(exponents) // MOST_CHANNELS))
    channels, exponents = seen.channels, exponents[some]
    shares = _channel_shares(numbers, channels.low[some], channels.high[some], channels.mean[some])
    edges = np.linspace(-reach, reach, BINS + 1)
    counts = np.zeros(BINS)
    for exponent in np.unique(exponents):
        together = shares[exponents == exponent].sum(0)
        below = np.concatenate([[0.0], np.cumsum(together[:-1])])
        counts += np.diff(np.interp(edges, np.ldexp(numbers.edges, -exponent), below))
        counts[BINS // 2] += together[-1]
    below = np.rint(np.cumsum(counts) * (numbers.total / len(exponents)))
    return np.diff(below, prepend=0).astype(np.int64)  # so that thin tails are not rounded away


def _channel_shares(merged: Distribution, low: Array, high: Array, mean: Array) -> Array:
    """For each channel the share of its numbers in each bin, and then that of its zeros."""
    left, right = merged.edges[:-1], merged.edges[1:]
    middles = np.append((left + right) / 2, 0.0)
    found = np.append(merged.counts - merged.zeros, merged.zeros.sum()) / max(merged.total, 1)
    inside = (np.append(right, 0.0) >= low[:, None]) & (np.append(left, 0.0) <= high[:, None])
    widths = np.maximum(high - low, np.float32(1e-30))[:, None]
    places = np.clip((middles - low[:, None]) / widths, 0, 1).astype(np.float32)
    wanted = ((mean - low) / widths[:, 0]).astype(np.float32)
    base = found
    for _ in range(ROUNDS):
        shares = _tilted(np.where(inside, base, 0) + 1e-30 * inside, places, wanted)
        together = shares.mean(0)
        base = base * np.where(together > 0, found / np.maximum(together, 1e-30), 1)
    return shares


def _tilted(base: Array, places: Array, wanted: Array) -> Array:
    """Rows of shares like those of the base, tilted so that the mean place is as wanted."""
    tilt = np.zeros((len(wanted), 1), np.float32)
    base = (base / base.max(1, keepdims=True).clip(1e-30)).astype(np.float32)
    for _ in range(NEWTON_STEPS):
        shares = _normalised(base * np.exp(tilt * (places - wanted[:, None])))
        mean = (shares * places).sum(1)
        spread = (shares * np.square(places)).sum(1) - mean**2
        step = np.clip((wanted - mean) / np.maximum(spread, 1e-6), -8, 8)
        tilt = np.clip(tilt + step[:, None], -MOST_TILT, MOST_TILT)
    return _normalised(base * np.exp(tilt * (places - wanted[:, None])))


def _normalised(shares: Array) -> Array:
    return np.asarray(shares / np.maximum(shares.sum(1, keepdims=True), 1e-30))
