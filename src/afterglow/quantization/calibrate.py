"""Calibration: the scale and offset of a value, from what was observed of it."""

from __future__ import annotations

import math

import numpy as np

from afterglow.quantization import entropy
from afterglow.quantization.distribution import Distribution, zeros_among
from afterglow.quantization.least_error import least_error_range
from afterglow.quantization.observation import BINS, Observation
from afterglow.quantization.scheme import Method, Scheme, parameters
from afterglow.support.errors import UsageError
from afterglow.types import DType, Quantization
from afterglow.types.dtype import u8

DEFAULT_PERCENTILE = 99.99
LEAST_COUNT = 64
"""Numbers for each level without which divergences are those of noise, and tell nothing."""

Range = tuple[float, float]


def calibrate(
    observation: Observation,
    scheme: Scheme = Scheme.ASYMMETRIC,
    method: Method = Method.MINMAX,
    dtype: DType = u8,
    percentile: float = DEFAULT_PERCENTILE,
) -> Quantization:
    """The scale and offset of a value; `percentile` is for the method of that name."""
    low, high = choose_range(observation, scheme, method, dtype, percentile)
    return parameters(low, high, scheme, dtype)


def choose_range(
    observation: Observation, scheme: Scheme, method: Method, dtype: DType, percentile: float
) -> Range:
    """The range that the integers stand for; what lies outside saturates."""
    if not observation.is_finite:
        raise UsageError("values that are infinite or not a number cannot be quantized")
    if method is Method.AVERAGE:
        return observation.average_low, observation.average_high
    if not observation.total:
        return observation.low, observation.high
    match method:
        case Method.PERCENTILE:
            return _percentile_range(observation, scheme, percentile)
        case Method.ENTROPY:
            return _entropy_range(observation, scheme, dtype)
        case Method.MSE:
            return least_error_range(Distribution.of(observation), scheme, dtype)
    return observation.low, observation.high


def saturated_share(observation: Observation, chosen: Quantization, dtype: DType) -> float:
    """The share of the numbers observed that are clipped to the least or the greatest integer."""
    (scale,), (offset,) = chosen.scales, chosen.offsets
    least, greatest = dtype.limits
    low, high = (least - offset - 0.5) * scale, (greatest - offset + 0.5) * scale
    return Distribution.of(observation).share_outside(low, high)


def signal_to_noise(observation: Observation, chosen: Quantization, dtype: DType) -> float:
    """The power of the numbers observed over that of the error that storing them makes, in dB."""
    distribution = Distribution.of(observation)
    scales, offsets = np.array(chosen.scales), np.array(chosen.offsets)
    noise = float(distribution.squared_errors(scales, offsets, dtype.limits)[0])
    if not noise:
        return math.inf
    return 10 * math.log10(distribution.power / noise) if distribution.power else -math.inf


def _percentile_range(observation: Observation, scheme: Scheme, percentile: float) -> Range:
    """Half of what is left out lies at each side; symmetric ranges leave out large magnitudes."""
    if not 0 < percentile <= 100:
        raise UsageError(f"the percentile must be above 0 and at most 100, got {percentile}")
    distribution = Distribution.of(observation)
    if _is_symmetric(observation, scheme):
        bound = distribution.magnitude_quantile(percentile / 100)
        return max(observation.low, -bound), min(observation.high, bound)
    outside = (100 - percentile) / 200
    return distribution.quantile(outside), distribution.quantile(1 - outside)


def _entropy_range(observation: Observation, scheme: Scheme, dtype: DType) -> Range:
    """Where bins are wider than steps, or nearly empty, all numbers are in the range."""
    zero, levels = BINS // 2, 1 << dtype.bits
    counts = observation.counts.astype(np.float64)
    counts[zero] -= zeros_among(counts, zero)
    if levels > BINS // 2 or counts.sum() < LEAST_COUNT * levels:
        return observation.low, observation.high
    part = 1.0
    if not _is_symmetric(observation, scheme):
        window = entropy.best_asymmetric(counts, zero, levels)
    elif scheme is Scheme.POWER_OF_TWO:
        window = entropy.best_power_of_two(counts, zero, levels)
        part = 1 - 2 / levels  # the greatest integer is one less than a power of two
    else:
        window = entropy.best_symmetric(counts, zero, levels)
    low, high = (part * (place - zero) * observation.bin_width for place in window)
    whole = window[0] <= 0, window[1] >= BINS  # the bins at the ends hold what is beyond as well
    return (
        observation.low if whole[0] else max(low, observation.low),
        observation.high if whole[1] else min(high, observation.high),
    )


def _is_symmetric(observation: Observation, scheme: Scheme) -> bool:
    """Whether the range has zero in its middle."""
    if scheme is Scheme.SYMMETRIC_UINT8:
        return observation.low < 0
    return scheme is not Scheme.ASYMMETRIC
