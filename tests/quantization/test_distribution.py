"""How the numbers of a value are distributed."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.quantization.distribution import Distribution
from afterglow.quantization.observation import Observation
from afterglow.quantization.scheme import Scheme, fit
from afterglow.types import Array


def samples(seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(0.3, 1.0, 100_000).astype(np.float32)


def squared_error(x: Array, scale: float, offset: int, limits: tuple[int, int]) -> float:
    wide = x.astype(np.float64)
    stored = np.clip(np.rint(wide / scale) + offset, *limits)
    return float(((wide - (stored - offset) * scale) ** 2).sum())


def test_the_power_is_the_sum_of_squares() -> None:
    x = samples()
    assert Distribution.of(Observation.of(x)).power == pytest.approx((x**2).sum(), rel=1e-3)


@pytest.mark.parametrize("limits", [(-128, 127), (0, 15), (-32768, 32767)])
@pytest.mark.parametrize("part", [1.0, 0.5, 0.1])
def test_errors_are_those_of_the_numbers_themselves(limits, part: float) -> None:
    x = samples()
    distribution = Distribution.of(Observation.of(x))
    low, high = part * x.min(keepdims=True), part * x.max(keepdims=True)
    scales, offsets = fit(low, high, Scheme.ASYMMETRIC, limits)
    (found,) = distribution.squared_errors(scales, offsets, limits)
    assert found == pytest.approx(squared_error(x, scales[0], offsets[0], limits), rel=0.02)
    (coarse,) = distribution.merged(512).squared_errors(scales, offsets, limits)
    assert coarse == pytest.approx(found, rel=0.02)


def test_zeros_of_a_rectifier_have_no_error() -> None:
    x = np.maximum(samples() - 1, 0)
    distribution = Distribution.of(Observation.of(x))
    scales, offsets = np.array([x.max() / 255]), np.array([0])
    (found,) = distribution.squared_errors(scales, offsets, (0, 255))
    assert found == pytest.approx(squared_error(x, scales[0], 0, (0, 255)), rel=0.02)


def test_quantiles_are_those_of_the_numbers() -> None:
    x = samples()
    distribution = Distribution.of(Observation.of(x))
    for share in (0.0, 0.001, 0.3, 0.5, 0.99, 1.0):
        assert distribution.quantile(share) == pytest.approx(np.quantile(x, share), abs=5e-3)
        expected = np.quantile(np.abs(x), share)
        assert distribution.magnitude_quantile(share) == pytest.approx(expected, abs=5e-3)


def test_shares_outside_a_range_are_those_of_the_numbers() -> None:
    x = samples()
    distribution = Distribution.of(Observation.of(x))
    for low, high in ((-1.0, 2.0), (-9.0, 1.0), (-9.0, 9.0), (0.0, 0.0)):
        expected = np.mean((x < low) | (x > high))
        assert distribution.share_outside(low, high) == pytest.approx(expected, abs=1e-3)
    assert distribution.share_outside(float(x.min()), float(x.max())) == 0.0


def test_one_number_again_and_again() -> None:
    distribution = Distribution.of(Observation.of(np.full(10, 3.3, np.float32)))
    (error,) = distribution.squared_errors(np.array([1.0]), np.array([0]), (-128, 127))
    assert error == pytest.approx(10 * 0.3**2, rel=1e-5)
    assert distribution.share_outside(0.0, 3.0) == 1.0
    assert distribution.quantile(0.5) == pytest.approx(3.3)


def test_nothing_observed_has_no_error() -> None:
    distribution = Distribution.of(Observation.of(np.zeros(0, np.float32)))
    assert distribution.total == distribution.power == distribution.share_outside(0, 0) == 0
