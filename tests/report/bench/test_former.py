"""Whether two benchmark results differ by more than noise."""

from __future__ import annotations

import numpy as np

from afterglow.report.bench.former import difference


def turns(seconds: float, noise: float, seed: int) -> list[list[float]]:
    random = np.random.default_rng(seed)
    return [list(seconds * random.normal(1, noise, 50)) for _ in range(5)]


def test_the_same_times_differ_by_noise_only() -> None:
    found = difference(turns(1.0, 0.05, 1), turns(1.0, 0.05, 2))
    assert found.is_noise
    assert str(found).startswith("no difference beyond noise (±")


def test_a_real_difference_is_found_with_its_margin() -> None:
    found = difference(turns(1.0, 0.02, 1), turns(0.8, 0.02, 2))
    assert not found.is_noise
    assert found.low < -20.0 < found.high or abs(found.percent + 20) < 2
    assert str(found).startswith("faster by ")
    assert str(difference(turns(1.0, 0.02, 1), turns(1.3, 0.02, 2))).startswith("slower by ")


def test_turns_that_differ_make_the_interval_wide() -> None:
    before = [[1.0] * 20, [1.5] * 20, [1.0] * 20, [1.5] * 20, [1.2] * 20]
    after = [[1.1] * 20, [1.4] * 20, [1.3] * 20, [1.1] * 20, [1.5] * 20]
    assert difference(before, after).is_noise
