"""Second moments of what layers read."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.quantization.moments import InputMoments, block_extent, row_errors
from afterglow.types import Array


def rows(groups: int, samples: int, depth: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(groups, samples, depth)).astype(np.float32)


def test_blocks_are_as_large_as_memory_allows() -> None:
    assert block_extent([(1, 4096), (960, 9)]) == 2048
    assert block_extent([(1, 16384)] * 10) == 512
    assert block_extent([(1, 10**9)]) == 128


def test_deep_layers_have_moments_in_blocks() -> None:
    x = rows(2, 30, 300)
    seen = InputMoments(2, 300, 128)
    seen.add(x)
    whole = np.matmul(x.transpose(0, 2, 1), x) / 30
    found = seen.whole()
    assert [block.shape for block in found] == [(2, 128, 128), (2, 128, 128), (2, 44, 44)]
    np.testing.assert_allclose(found[1], whole[:, 128:256, 128:256], rtol=1e-4, atol=1e-5)


def test_few_rows_are_not_enough_for_deep_layers() -> None:
    seen = InputMoments(1, 300, 256)
    seen.add(rows(1, 31, 300))
    assert not seen.is_enough
    seen.add(rows(1, 1, 300))
    assert seen.is_enough


def test_runs_go_to_two_halves_in_turn_and_the_first_to_both() -> None:
    seen = InputMoments(1, 3)
    runs = [rows(1, 4, 3, seed) for seed in range(4)]
    for run in runs:
        seen.add(run)
    halves = (
        np.concatenate([runs[0][0, ::2], runs[2][0]]),
        np.concatenate([runs[0][0, 1::2], runs[1][0], runs[3][0]]),
    )
    for half, x in enumerate(halves):
        (found,) = seen.half(half)
        np.testing.assert_allclose(found[0], x.T @ x / len(x), rtol=1e-5)


@pytest.mark.parametrize("groups", [1, 3])
def test_moments_of_divided_channels_are_those_of_divided_inputs(groups: int) -> None:
    taps, channels = 4, 6
    factors = np.geomspace(0.25, 8, channels)
    x = rows(groups, 20, taps * channels // groups)
    by_channel = x.reshape(groups, 20, taps, -1) / factors.reshape(groups, 1, 1, -1)
    plain, scaled = (InputMoments(groups, x.shape[-1]) for _ in range(2))
    plain.add(x)
    scaled.add(by_channel.reshape(x.shape).astype(np.float32))
    found, expected = plain.divided(factors).whole(), scaled.whole()
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-4, atol=1e-5)


def test_errors_of_rows_follow_from_the_moments() -> None:
    x, difference = rows(2, 50, 20), rows(2, 7, 20, seed=1)
    seen = InputMoments(2, 20)
    seen.add(x)
    expected = np.square(np.einsum("gnd,grd->gnr", x, difference)).mean(1)
    np.testing.assert_allclose(row_errors(difference, seen.whole()), expected, rtol=1e-4)


def test_centred_moments_are_those_of_what_is_read_less_its_mean() -> None:
    x = rows(2, 40, 12) + 3
    seen = InputMoments(2, 12, 8)
    seen.add(x)
    np.testing.assert_allclose(seen.mean, x.mean(1), rtol=1e-5)
    np.testing.assert_allclose(seen.divided(np.full(12, 2.0)).mean, x.mean(1) / 2, rtol=1e-5)
    spread = x - x.mean(1, keepdims=True)
    expected = np.matmul(spread.transpose(0, 2, 1), spread) / 40
    found = seen.whole(centred=True)
    np.testing.assert_allclose(found[1], expected[:, 8:, 8:], rtol=1e-3, atol=1e-4)
    half = x[:, ::2] - x[:, ::2].mean(1, keepdims=True)
    expected = np.matmul(half.transpose(0, 2, 1), half) / 20
    np.testing.assert_allclose(
        seen.half(0, centred=True)[0], expected[:, :8, :8], rtol=1e-3, atol=1e-4
    )
