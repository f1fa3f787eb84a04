"""Observations of values whose channels are scaled."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.quantization.distribution import Distribution
from afterglow.quantization.observation import Observation
from afterglow.quantization.scaled_observation import scaled_observation


def test_divided_channels_have_their_ranges() -> None:
    x = np.array([[1.0, -64.0], [-2.0, 32.0]], np.float32)
    seen = scaled_observation(Observation.of(x), np.array([0, 4]))
    wanted = Observation.of(x / np.array([1, 16], np.float32))
    assert (seen.low, seen.high, seen.reach) == (wanted.low, wanted.high, wanted.reach)
    assert (seen.average_low, seen.average_high) == (seen.low, seen.high)
    assert seen.channels is not None
    assert wanted.channels is not None
    for part in ("low", "high", "mean"):
        own, other = getattr(seen.channels, part), getattr(wanted.channels, part)
        np.testing.assert_array_equal(own, other)


@pytest.mark.parametrize("rectified", [False, True])
def test_the_histogram_of_divided_channels_is_about_what_it_would_be(rectified: bool) -> None:
    rng = np.random.default_rng(0)
    sizes, means = np.exp(rng.normal(size=64)), rng.normal(size=64)
    x = (rng.normal(size=(500, 64)) * sizes + means).astype(np.float32)
    x = np.maximum(x, 0) if rectified else x
    exponents = np.rint(np.log2(np.abs(x).max(0) + 0.01)).astype(np.int32)
    found, wanted = (
        Distribution.of(observation)
        for observation in (
            scaled_observation(Observation.of(x), exponents),
            Observation.of(np.ldexp(x, -exponents)),
        )
    )
    assert abs(found.total / wanted.total - 1) < 0.01
    assert abs(found.zeros.sum() - wanted.zeros.sum()) < 0.05 * wanted.total
    assert 0.75 < found.power / wanted.power < 1.5
    for share in (0.1, 0.5, 0.9):
        assert abs(found.quantile(share) - wanted.quantile(share)) < 0.15


def test_without_exponents_the_histogram_stays_about_the_same() -> None:
    x = np.random.default_rng(1).normal(size=(900, 8)).astype(np.float32)
    seen = Observation.of(x)
    found = scaled_observation(seen, np.zeros(8, np.int32))
    assert abs(found.total / seen.total - 1) < 0.05
    assert np.abs(np.cumsum(found.counts - seen.counts)).max() < 0.02 * seen.total
