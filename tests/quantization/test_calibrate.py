"""Scales and offsets from what was observed."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from onnxruntime.quantization.calibrate import HistogramCollector

from afterglow.quantization.calibrate import (
    calibrate,
    choose_range,
    saturated_share,
    signal_to_noise,
)
from afterglow.quantization.observation import BINS, Observation
from afterglow.quantization.scheme import Method, Scheme, fit
from afterglow.support.errors import UsageError
from afterglow.types import Array, DType, Quantization
from afterglow.types.dtype import i8, i16, u8
from tests.effort import calls

each_scheme = pytest.mark.parametrize("scheme", Scheme)
each_method = pytest.mark.parametrize("method", Method)


def samples(kind: str = "standard_normal", seed: int = 0, count: int = 60_000) -> Array:
    return getattr(np.random.default_rng(seed), kind)(size=count).astype(np.float32)


DATA = {
    "normal": samples(),
    "laplace": samples("laplace"),
    "rectified": np.maximum(samples(), 0),
    "exponential": samples("standard_exponential"),
    "negative": -samples("standard_exponential"),
    "skewed": samples() + samples("standard_exponential", 1) ** 2,
}
each_array = pytest.mark.parametrize("x", DATA.values(), ids=DATA)


def mean_squared_error(x: Array, chosen: Quantization, dtype: DType) -> float:
    (scale,), (offset,) = chosen.scales, chosen.offsets
    wide = x.astype(np.float64)
    stored = np.clip(np.rint(wide / scale) + offset, *dtype.limits)
    return float(((wide - (stored - offset) * scale) ** 2).mean())


def test_min_and_max_are_the_range() -> None:
    seen = Observation.of(DATA["normal"]).merge(Observation.of(3 * DATA["skewed"]))
    found = choose_range(seen, Scheme.ASYMMETRIC, Method.MINMAX, u8, 99)
    assert found == (seen.low, seen.high)
    found = choose_range(seen, Scheme.ASYMMETRIC, Method.AVERAGE, u8, 99)
    assert found == (seen.average_low, seen.average_high)


@each_array
@pytest.mark.parametrize("percentile", [99.9, 99, 90])
def test_percentiles_leave_out_half_at_each_side(x: Array, percentile: float) -> None:
    seen = Observation.of(x)
    found = choose_range(seen, Scheme.ASYMMETRIC, Method.PERCENTILE, i8, percentile)
    outside = (100 - percentile) / 2
    expected = np.percentile(x, [outside, 100 - outside])
    np.testing.assert_allclose(found, expected, atol=2 * seen.bin_width, rtol=0.01)


@pytest.mark.parametrize("symmetric", [True, False])
def test_percentiles_are_those_of_another_calibrator(symmetric: bool, capsys) -> None:
    x = DATA["skewed"]
    collector = HistogramCollector("percentile", symmetric, 4096, 0, 99.5, "same")
    collector.collect({"x": [x]})
    low, high, *_ = collector.compute_collection_result()["x"]
    scheme = Scheme.SYMMETRIC if symmetric else Scheme.ASYMMETRIC
    seen = Observation.of(x)
    found = choose_range(seen, scheme, Method.PERCENTILE, i8, 99.5)
    wanted = max(float(low), seen.low), float(high)
    np.testing.assert_allclose(found, wanted, atol=1.5 * seen.bin_width)


@each_array
@pytest.mark.parametrize("scheme", [Scheme.ASYMMETRIC, Scheme.SYMMETRIC])
def test_the_error_is_about_the_least_of_all_ranges(x: Array, scheme: Scheme) -> None:
    chosen = calibrate(Observation.of(x), scheme, Method.MSE, i8)
    parts = np.linspace(0.1, 1, 19)
    low, high = min(x.min(), 0), max(x.max(), 0)
    pairs = [(low * a, high * b) for a, b in itertools.product(parts, parts)]
    if scheme is Scheme.SYMMETRIC:
        bound = max(-low, high)
        pairs = [(-bound * a, bound * a) for a in parts]
    few = x[:10_000]
    scales, offsets = fit(*np.array(sorted({*pairs})).T, scheme, i8.limits)
    tried = zip(scales, offsets, strict=True)
    options = [Quantization((float(s),), (int(o),)) for s, o in {*tried}]
    estimates = [(mean_squared_error(few, option, i8), option) for option in options]
    likely = sorted(estimates, key=lambda pair: pair[0])[:40]
    least = min(mean_squared_error(x, option, i8) for _, option in likely)
    assert mean_squared_error(x, chosen, i8) <= 1.03 * least


@each_array
@each_scheme
@pytest.mark.parametrize("dtype", [i8, u8, i16], ids=str)
def test_the_search_for_the_least_error_is_never_worse_than_all_numbers(x, scheme, dtype) -> None:
    seen = Observation.of(x)
    whole, best = (calibrate(seen, scheme, m, dtype) for m in (Method.MINMAX, Method.MSE))
    assert mean_squared_error(x, best, dtype) <= 1.01 * mean_squared_error(x, whole, dtype)


@each_array
@each_scheme
@each_method
def test_the_noise_is_predicted(x: Array, scheme: Scheme, method: Method) -> None:
    seen = Observation.of(x)
    chosen = calibrate(seen, scheme, method, i8)
    actual = 10 * math.log10((x**2).mean() / mean_squared_error(x, chosen, i8))
    assert signal_to_noise(seen, chosen, i8) == pytest.approx(actual, abs=0.3)


@each_array
@each_method
def test_the_share_that_saturates_is_predicted(x: Array, method: Method) -> None:
    seen = Observation.of(x)
    chosen = calibrate(seen, Scheme.ASYMMETRIC, method, u8, 99)
    (scale,), (offset,) = chosen.scales, chosen.offsets
    stored = np.rint(x / np.float32(scale)) + offset
    expected = np.mean((stored < 0) | (stored > 255))
    assert saturated_share(seen, chosen, u8) == pytest.approx(expected, abs=5e-4)


def test_entropy_leaves_out_a_tail_of_outliers() -> None:
    x = DATA["normal"].copy()
    x[:4] = [30, -20, 25, 40]
    for scheme in (Scheme.ASYMMETRIC, Scheme.SYMMETRIC, Scheme.POWER_OF_TWO):
        low, high = choose_range(Observation.of(x), scheme, Method.ENTROPY, i8, 0)
        assert -8 < low < -2
        assert 2 < high < 8


def test_entropy_takes_all_numbers_where_there_are_few_or_many_levels() -> None:
    few, many = Observation.of(DATA["normal"][:300]), Observation.of(DATA["normal"])
    for seen, dtype in ((few, i8), (many, i16)):
        found = choose_range(seen, Scheme.ASYMMETRIC, Method.ENTROPY, dtype, 0)
        assert found == (seen.low, seen.high)


@each_scheme
@each_method
@pytest.mark.parametrize("number", [0.0, 3.3, -3.3, 1e38, -3e38, 1e-25, 1e-42, 1e-45])
def test_one_number_again_and_again_is_kept(scheme: Scheme, method: Method, number: float) -> None:
    x = np.full(50_000, number, np.float32)
    seen = Observation.of(x)
    for dtype in (i8, u8, i16):
        chosen = calibrate(seen, scheme, method, dtype)
        error = math.sqrt(mean_squared_error(x, chosen, dtype))
        assert error <= 0.01 * abs(float(x[0])) or abs(number) < 2.0**-100
        assert saturated_share(seen, chosen, dtype) == 0


@each_scheme
@each_method
@pytest.mark.parametrize("size", [1e-42, 1e-25, 1e37])
def test_tiny_and_huge_numbers_are_as_others(scheme: Scheme, method: Method, size: float) -> None:
    x = (DATA["normal"][:20_000].astype(np.float64) * size).astype(np.float32)
    seen = Observation.of(x)
    chosen = calibrate(seen, scheme, method, i8)
    assert np.isfinite(np.float32(chosen.scales[0]))
    if size > 1e-30:
        assert signal_to_noise(seen, chosen, i8) > 30


@each_method
def test_a_value_without_elements_has_some_parameters(method: Method) -> None:
    seen = Observation.of(np.zeros(0, np.float32))
    chosen = calibrate(seen, Scheme.ASYMMETRIC, method, u8)
    assert chosen == Quantization((1.0,), (0,))
    assert signal_to_noise(seen, chosen, u8) == math.inf
    assert saturated_share(seen, chosen, u8) == 0


@each_method
def test_calibration_looks_at_no_bin_by_itself(method: Method) -> None:
    """Which takes it a millisecond; a loop over the bins would take it many."""
    seen = Observation.of(DATA["skewed"])
    assert calls(lambda: calibrate(seen, Scheme.ASYMMETRIC, method, i8)) < BINS / 4


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_what_is_not_finite_is_refused(odd: float) -> None:
    with pytest.raises(UsageError) as caught:
        calibrate(Observation.of(np.array([1.0, odd], np.float32)))
    assert caught.value.what == "values that are infinite or not a number cannot be quantized"


@pytest.mark.parametrize("percentile", [0.0, 101.0])
def test_a_percentile_is_a_share(percentile: float) -> None:
    with pytest.raises(UsageError) as caught:
        calibrate(Observation.of(DATA["normal"]), method=Method.PERCENTILE, percentile=percentile)
    expected = f"the percentile must be above 0 and at most 100, got {percentile}"
    assert caught.value.what == expected


@pytest.mark.parametrize("method", [m for m in Method if m is not Method.AVERAGE])
def test_without_a_histogram_the_range_is_all_that_was_observed(method: Method) -> None:
    seen = replace(Observation.of(np.array([-1.0, 3.0])), counts=np.zeros(BINS, np.int64))
    chosen = choose_range(seen, Scheme.ASYMMETRIC, method, u8, 99.0)
    assert chosen == (-1.0, 3.0)
