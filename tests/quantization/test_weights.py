"""Weights and biases as integers."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.quantization.scheme import Scheme
from afterglow.quantization.weights import (
    MOST_BIAS,
    least_scales,
    quantize_bias,
    quantize_groups,
    quantize_weight,
)
from afterglow.support.errors import UsageError
from afterglow.types import Array
from afterglow.types.dtype import f32, i4, i8, u4, u8


def weights(*shape: int, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) * rng.uniform(0.01, 2, (*shape[:-1], 1))).astype(np.float32)


def error(weight: Array, found: Array) -> float:
    return float(((weight - found) ** 2).sum())


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1])
@pytest.mark.parametrize("scheme", [Scheme.SYMMETRIC, Scheme.ASYMMETRIC])
def test_every_channel_has_a_scale_of_its_own(axis: int, scheme: Scheme) -> None:
    weight = weights(4, 3, 5, 6)
    found = quantize_weight(weight, axis, i8, scheme)
    assert found.stored.dtype == np.int8
    assert found.scales.shape == (weight.shape[axis],)
    step = np.moveaxis(np.moveaxis(np.ones_like(weight), axis, -1) * found.scales, -1, axis)
    assert (np.abs(weight - found.dequantized()) <= 0.501 * step).all()
    assert (found.offsets is None) == (scheme is Scheme.SYMMETRIC)


def test_one_scale_serves_all_weights() -> None:
    weight = weights(7, 9)
    found = quantize_weight(weight, None)
    assert found.scales.shape == ()
    assert found.scales == np.float32(np.abs(weight).max() / 127)
    assert np.abs(weight - found.dequantized()).max() <= 0.501 * found.scales


def test_symmetric_bytes_have_opposites() -> None:
    weight = np.array([[-1.0, 0.5], [0.25, 1.0]], np.float32)
    found = quantize_weight(weight, 0)
    assert found.stored.tolist() == [[-127, 64], [32, 127]]


def test_a_search_has_less_error_than_the_whole_range() -> None:
    weight = weights(16, 400)
    weight[:, 0] *= 6
    whole, best = (quantize_weight(weight, 0, i4, search=s).dequantized() for s in (False, True))
    assert error(weight, best) < 0.7 * error(weight, whole)
    whole, best = (quantize_weight(weight, 0, search=s).dequantized() for s in (False, True))
    assert error(weight, best) <= error(weight, whole)


@pytest.mark.parametrize("size", [32, 64, 128])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    ("dtype", "scheme"),
    [(i4, Scheme.SYMMETRIC), (u4, Scheme.SYMMETRIC), (u4, Scheme.ASYMMETRIC)],
    ids=str,
)
def test_groups_along_the_depth_have_scales_of_their_own(size, axis, dtype, scheme) -> None:
    weight = weights(200, 140)
    found = quantize_groups(weight, axis, size, dtype, scheme, search=False)
    assert found.stored.dtype == dtype.numpy
    count = -(-weight.shape[axis] // size)
    assert found.scales.shape == ((count, 140) if axis == 0 else (200, count))
    step = np.repeat(found.scales, size, axis)[:200, :140]
    assert (np.abs(weight - found.dequantized()) <= 0.501 * step).all()
    types = [f32.numpy, None if found.offsets is None else found.offsets.dtype]
    assert types == [found.scales.dtype, None if dtype is i4 else dtype.numpy]
    searched = quantize_groups(weight, axis, size, dtype, scheme)
    assert error(weight, searched.dequantized()) < error(weight, found.dequantized())


def test_the_search_in_a_group_finds_the_least_of_what_it_tries() -> None:
    weight = weights(3, 32)
    found = quantize_groups(weight, 1, 32, i4, Scheme.SYMMETRIC)
    for row, scale in zip(weight, found.scales[:, 0], strict=True):
        whole = max(row.max() / 7, -row.min() / 8)
        tried = [whole * part for part in (1, *(1 - 0.02 * np.arange(1, 21)))]
        errors = [error(row, np.clip(np.rint(row / s), -8, 7) * s) for s in tried]
        assert scale == pytest.approx(tried[int(np.argmin(errors))], rel=1e-6)


def test_weights_of_zeros_stay_zeros() -> None:
    weight = weights(4, 64)
    weight[1] = 0
    for found in (quantize_weight(weight, 0), quantize_groups(weight, 1, 32)):
        assert not found.dequantized()[1].any()
        assert (found.scales > 0).all()


def test_biases_are_integers_of_the_scale_of_sums() -> None:
    bias = np.array([0.5, -1.0, 3.0], np.float32)
    integers, scales = quantize_bias(bias, 0.5, np.array([0.25, 0.5, 1.0], np.float32))
    assert scales.tolist() == [0.125, 0.25, 0.5]
    assert integers.tolist() == [4, -4, 6]
    assert integers.dtype == np.int32


def test_a_scale_grows_until_the_bias_fits() -> None:
    weight, bias = weights(3, 50), np.array([1.0, -2.0, 0.0], np.float32)
    weight[1] *= 1e-12
    least = least_scales(bias, 0.01)
    plain, found = quantize_weight(weight, 0), quantize_weight(weight, 0, least_scales=least)
    assert (plain.scales == found.scales).tolist() == [True, False, True]
    assert np.abs(quantize_bias(bias, 0.01, plain.scales)[0]).max() == MOST_BIAS
    integers, scales = quantize_bias(bias, 0.01, found.scales)
    assert np.abs(integers).max() <= MOST_BIAS
    assert (np.abs(integers * scales.astype(np.float64) - bias) <= scales).all()


@pytest.mark.parametrize("scheme", Scheme)
def test_scales_that_grow_fit_every_scheme(scheme: Scheme) -> None:
    weight = weights(3, 50)
    found = quantize_weight(weight, 0, u8, scheme, least_scales=np.array([0.0, 0.5, 0.0]))
    assert found.scales[1] >= 0.5
    steps = found.scales[:, None]
    assert (np.abs(weight - found.dequantized()) <= 0.501 * steps).all()


def test_weights_that_are_not_finite_are_refused() -> None:
    with pytest.raises(UsageError) as caught:
        quantize_weight(np.array([[1.0, np.inf]], np.float32), 0)
    assert caught.value.what == "weights that are infinite or not a number cannot be quantized"


def test_weights_have_bytes_or_half_bytes() -> None:
    with pytest.raises(UsageError) as caught:
        quantize_weight(weights(2, 2), 0, f32)
    assert caught.value.what == "weights are quantized to i8, u8, i4, u4, not to f32"
