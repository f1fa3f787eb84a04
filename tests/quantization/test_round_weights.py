"""Rounding that keeps the results of a layer."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from afterglow.quantization.round_weights import (
    output_error,
    round_weights,
    second_moments,
)
from afterglow.quantization.scheme import Scheme
from afterglow.quantization.weights import QuantizedWeight, quantize_groups, quantize_weight
from afterglow.types import Array
from afterglow.types.dtype import i4

DEPTH, ROWS = 96, 40


def correlated(samples: int, seed: int = 0, depth: int = DEPTH) -> Array:
    """Inputs of which some channels are larger, and all depend on few causes."""
    mixing = np.random.default_rng(7).normal(size=(depth // 4, depth)) * np.geomspace(0.1, 3, depth)
    rng = np.random.default_rng(seed)
    noise = 0.1 * rng.normal(size=(samples, depth))
    return (rng.normal(size=(samples, depth // 4)) @ mixing + noise).astype(np.float32)


def weights(rows: int = ROWS, depth: int = DEPTH) -> Array:
    return np.random.default_rng(1).normal(size=(rows, depth)).astype(np.float32)


def parameters(found: QuantizedWeight) -> tuple[Array, Array]:
    zeros = np.zeros(found.scales.shape, np.int32)
    return found.scales, zeros if found.offsets is None else found.offsets.astype(np.int32)


def real(stored: Array, scales: Array, offsets: Array, group: int) -> Array:
    if group:
        scales, offsets = (np.repeat(p, group, 1)[:, : stored.shape[1]] for p in (scales, offsets))
        return (stored - offsets) * scales
    return (stored - offsets[:, None]) * scales[:, None]


CASES = [
    (lambda w: quantize_weight(w, 0), (-127, 127), 0),
    (lambda w: quantize_weight(w, 0, i4, search=True), (-8, 7), 0),
    (lambda w: quantize_groups(w, 1, 32), (0, 15), 32),
    (lambda w: quantize_groups(w, 1, 40, i4, Scheme.SYMMETRIC), (-8, 7), 40),
]


@pytest.mark.parametrize(("quantize", "limits", "group"), CASES)
def test_results_have_much_less_error_than_with_the_nearest_integers(
    quantize, limits, group
) -> None:
    weight, seen, unseen = weights(), correlated(800), correlated(400, seed=3)
    nearest = quantize(weight)
    scales, offsets = parameters(nearest)
    stored = round_weights(weight, second_moments(seen), scales, offsets, limits, group_size=group)
    assert stored.min() >= limits[0]
    assert stored.max() <= limits[1]
    for x in (seen, unseen):
        plain = np.square(x @ (nearest.dequantized() - weight).T).mean()
        found = np.square(x @ (real(stored, scales, offsets, group) - weight).T).mean()
        assert found < 0.5 * plain


def test_rounding_again_has_less_error() -> None:
    weight, moments = weights(), second_moments(correlated(800))
    scales, offsets = parameters(quantize_weight(weight, 0, i4))
    errors = []
    for sweeps in (0, 1, 3):
        stored = round_weights(
            weight, moments, scales, offsets, (-8, 7), damping=1e-6, sweeps=sweeps
        )
        errors.append(output_error(real(stored, scales, offsets, 0) - weight, moments))
    assert errors == sorted(errors, reverse=True)


def test_few_weights_are_rounded_about_as_well_as_can_be() -> None:
    weight, moments = weights(6, 6), second_moments(correlated(500, depth=6))
    scales, offsets = parameters(quantize_weight(weight, 0, i4))
    stored = round_weights(weight, moments, scales, offsets, (-8, 7), damping=1e-6, sweeps=4)
    found = output_error(real(stored, scales, offsets, 0) - weight, moments)
    least = 0.0
    below = np.floor(weight / scales[:, None])
    near = np.array([*itertools.product((-1, 0, 1, 2), repeat=6)])
    for row in range(6):
        choices = np.clip(below[row] + near, -8, 7)
        differences = choices * scales[row] - weight[row]
        least += np.einsum("cd,cd->c", differences @ moments, differences).min()
    assert found <= 1.8 * least


def test_uncorrelated_inputs_get_the_nearest_integers() -> None:
    weight = weights()
    nearest = quantize_weight(weight, 0)
    stored = round_weights(weight, np.eye(DEPTH), *parameters(nearest), (-127, 127))
    np.testing.assert_array_equal(stored, nearest.stored)


def test_inputs_that_are_always_zero_do_no_harm() -> None:
    weight, x = weights(), correlated(300)
    x[:, 10:20] = 0
    nearest = quantize_weight(weight, 0)
    stored = round_weights(weight, second_moments(x), *parameters(nearest), (-127, 127))
    np.testing.assert_array_equal(stored[:, 10:20], nearest.stored[:, 10:20])
    nothing = round_weights(weight, np.zeros((DEPTH, DEPTH)), *parameters(nearest), (-127, 127))
    np.testing.assert_array_equal(nothing, nearest.stored)


def test_the_error_of_results_follows_from_the_moments() -> None:
    x, difference = correlated(200), weights() * 0.01
    expected = np.square(x @ difference.T).sum(1).mean()
    assert output_error(difference, second_moments(x)) == pytest.approx(expected, rel=1e-4)
