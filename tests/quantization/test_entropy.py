"""Windows of histograms with the least divergence."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from onnxruntime.quantization.calibrate import HistogramCollector

from afterglow.quantization.entropy import (
    SMOOTHING,
    best_asymmetric,
    best_power_of_two,
    best_symmetric,
    divergences,
)
from afterglow.types import Array


def histogram(kind: str, bins: int) -> Array:
    draw = getattr(np.random.default_rng(0), kind)
    x = np.clip(draw(size=200_000), -12, 12)
    return np.histogram(x, bins, (-12, 12))[0].astype(np.float64)


def divergence(counts: Array, start: int, stop: int, levels: int) -> float:
    """By the definition, bin by bin."""
    p = counts[start:stop].copy()
    borders = [level * (stop - start) // levels for level in range(levels + 1)]
    totals = [p[a:b].sum() for a, b in itertools.pairwise(borders)]
    p[0] += counts[:start].sum()
    p[-1] += counts[stop:].sum()
    q = np.zeros_like(p)
    for level, total in enumerate(totals):
        used = p[borders[level] : borders[level + 1]] > 0
        q[borders[level] : borders[level + 1]] = used * max(total, SMOOTHING) / max(used.sum(), 1)
    kept = counts[start:stop].sum()
    return sum(
        a / p.sum() * np.log(a / p.sum() / (b / kept)) for a, b in zip(p, q, strict=True) if a
    )


@pytest.mark.parametrize("kind", ["standard_normal", "laplace"])
def test_divergences_follow_the_definition(kind: str) -> None:
    counts = histogram(kind, 256)
    starts, stops = np.array([0, 20, 60, 3]), np.array([256, 200, 190, 90])
    found = divergences(counts, starts, stops, 16)
    expected = [divergence(counts, a, b, 16) for a, b in zip(starts, stops, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("kind", ["standard_normal", "laplace"])
def test_the_symmetric_window_is_near_that_of_another_calibrator(kind: str) -> None:
    levels, bins = 63, 513
    counts = histogram(kind, bins)
    edges = np.linspace(-12, 12, bins + 1)
    collector = HistogramCollector("entropy", True, bins, levels, 0, "same")
    _, bound, *_ = collector.get_entropy_threshold(
        (counts.astype(np.int64), edges, edges[0], edges[-1]), levels
    )
    _, stop = best_symmetric(histogram(kind, bins - 1), bins // 2, levels + 1)
    # the other one counts what is left over of a division into levels to the last of them
    assert edges[stop] == pytest.approx(float(bound), rel=0.25)


@pytest.mark.parametrize("kind", ["standard_normal", "laplace"])
def test_the_symmetric_window_is_about_the_best_of_all(kind: str) -> None:
    counts = histogram(kind, 2048)
    start, stop = best_symmetric(counts, 1024, 256)
    assert start + stop == 2048
    halves = np.arange(128, 1025)
    least = divergences(counts, 1024 - halves, 1024 + halves, 256).min()
    (found,) = divergences(counts, np.array([start]), np.array([stop]), 256)
    assert found <= 1.05 * least


def test_powers_of_two_are_halves_of_halves() -> None:
    counts = histogram("standard_normal", 2048)
    start, stop = best_power_of_two(counts, 1024, 256)
    assert (start, stop) in [(1024 - half, 1024 + half) for half in (1024, 512, 256, 128)]
    halves = np.array([1024, 512, 256, 128])
    found = divergences(counts, 1024 - halves, 1024 + halves, 256)
    assert stop - 1024 == halves[np.argmin(found)]


def test_a_long_thin_tail_is_left_out_and_the_other_side_kept() -> None:
    core = np.abs(np.random.default_rng(0).normal(0, 180, 100_000)) + 1950
    counts = np.histogram([*core, *range(3000, 4096, 90)], 4096, (0, 4096))[0]
    start, stop = best_asymmetric(counts.astype(np.float64), 2048, 256)
    assert start == 1950
    assert 2300 <= stop < 3000


def test_windows_reach_zero_where_nothing_is_beyond_it() -> None:
    counts = np.zeros(4096)
    counts[2200:3300] = 50.0
    start, stop = best_asymmetric(counts, 2048, 256)
    assert start == 2048
    assert stop > 3000
    start, stop = best_asymmetric(counts[::-1], 2048, 256)
    assert stop == 2048
