"""What runs observe of a value."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.quantization.observation import (
    BINS,
    LARGEST_REACH,
    LEAST_REACH,
    ChannelRanges,
    Observation,
    fold,
    histogram,
    reach_of,
)


def normal(scale: float, seed: int = 0, shape: tuple[int, ...] = (40, 25)) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, scale, shape).astype(np.float32)


def test_the_reach_is_the_power_of_two_above_all_magnitudes() -> None:
    assert reach_of(-0.3, 0.9) == 1.0
    assert reach_of(-5.0, 0.9) == 8.0
    assert reach_of(0.0, 1.0) == 2.0
    assert reach_of(0.0, 0.0) == LEAST_REACH
    assert reach_of(-1e-44, 0.0) == LEAST_REACH
    assert reach_of(0.0, 3.4e38) == LARGEST_REACH


def test_numbers_are_counted_in_their_bins_and_outliers_in_those_at_the_ends() -> None:
    x = np.array([-9.0, -4.0, -0.001, 0.0, 0.001, 3.999, 4.0, 9.0], np.float32)
    counts = histogram(x, 4.0)
    counted = {place: counts[place] for place in np.flatnonzero(counts)}
    assert counted == {0: 2, BINS // 2 - 1: 1, BINS // 2: 2, BINS - 1: 3}


def test_an_observation_holds_exact_ranges() -> None:
    x = normal(3.0)
    seen = Observation.of(x)
    assert (seen.low, seen.high) == (x.min(), x.max()) == (seen.average_low, seen.average_high)
    assert (seen.total, seen.runs, seen.reach) == (x.size, 1, 16.0)
    assert seen.bin_width == 2.0**-7
    assert seen.channels is not None
    np.testing.assert_array_equal(seen.channels.low, x.min(0))
    np.testing.assert_array_equal(seen.channels.high, x.max(0))
    np.testing.assert_allclose(seen.channels.mean, x.mean(0), rtol=1e-5, atol=1e-6)


def test_vectors_and_empty_arrays_have_no_channels() -> None:
    assert Observation.of(normal(1.0, shape=(7,))).channels is None
    assert ChannelRanges.of(np.zeros((0, 3), np.float32)) is None


def test_merging_runs_counts_as_one_run_of_all_would() -> None:
    runs = [normal(scale, seed) for seed, scale in enumerate((0.01, 5.0, 0.0, 1e-20, 40.0))]
    merged = Observation.of(runs[0])
    for run in runs[1:]:
        merged = merged.merge(Observation.of(run))
    whole = Observation.of(np.concatenate(runs))
    assert (merged.low, merged.high, merged.reach) == (whole.low, whole.high, whole.reach)
    assert merged.runs == 5
    np.testing.assert_array_equal(merged.counts, whole.counts)
    assert merged.channels is not None
    assert whole.channels is not None
    np.testing.assert_array_equal(merged.channels.high, whole.channels.high)
    np.testing.assert_allclose(merged.channels.mean, whole.channels.mean, rtol=1e-4, atol=1e-6)


def test_merging_does_not_depend_on_how_runs_are_grouped() -> None:
    a, b, c = (Observation.of(normal(scale, 3)) for scale in (1.0, 100.0, 0.2))
    left, right = a.merge(b).merge(c), a.merge(b.merge(c))
    np.testing.assert_array_equal(left.counts, right.counts)
    assert (left.low, left.high, left.runs) == (right.low, right.high, right.runs)


def test_averages_move_by_a_tenth_towards_each_run() -> None:
    first = Observation.of(np.array([-1.0, 1.0], np.float32))
    second = Observation.of(np.array([-2.0, 11.0], np.float32))
    merged = first.merge(second)
    assert (merged.average_low, merged.average_high) == pytest.approx((-1.1, 2.0))
    assert (merged.low, merged.high) == (-2.0, 11.0)


def test_runs_without_elements_change_nothing_but_their_number() -> None:
    seen, empty = Observation.of(normal(1.0)), Observation.of(np.zeros((0, 4), np.float32))
    for merged in (seen.merge(empty), empty.merge(seen)):
        assert (merged.low, merged.average_low, merged.runs) == (seen.low, seen.low, 2)
        np.testing.assert_array_equal(merged.counts, seen.counts)


def test_runs_with_other_channels_have_none_in_common() -> None:
    merged = Observation.of(np.ones((2, 3))).merge(Observation.of(np.ones((2, 4))))
    assert merged.channels is None


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_not_counted_and_shows(odd: float) -> None:
    seen = Observation.of(np.array([1.0, odd, 2.0], np.float32))
    assert not seen.is_finite
    assert seen.total == 2
    merged = Observation.of(np.array([1.0], np.float32)).merge(seen)
    assert not merged.is_finite


def test_histograms_fold_by_powers_of_two() -> None:
    x = normal(1.0)
    for wider in (8.0, 16.0, 2.0**40, LARGEST_REACH):
        np.testing.assert_array_equal(fold(histogram(x, 8.0), 8.0, wider), histogram(x, wider))
