"""Integers for ranges."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.quantization.scheme import (
    ELEMENT_TYPES,
    LEAST_SCALE,
    Method,
    Scheme,
    chosen_for,
    fit,
    parameters,
)
from afterglow.support.errors import UsageError
from afterglow.types import Quantization
from afterglow.types.dtype import i8, i16, i32, u8

HUGE = float(np.finfo(np.float32).max)


def test_asymmetric_ranges_use_every_integer() -> None:
    assert parameters(-1.0, 254.0, Scheme.ASYMMETRIC, u8) == Quantization((1.0,), (1,))
    assert parameters(-1.0, 254.0, Scheme.ASYMMETRIC, i8) == Quantization((1.0,), (-127,))
    assert parameters(0.0, 510.0, Scheme.ASYMMETRIC, i8) == Quantization((2.0,), (-128,))
    assert parameters(-510.0, -9.0, Scheme.ASYMMETRIC, u8) == Quantization((2.0,), (255,))


def test_symmetric_ranges_have_zero_in_the_middle() -> None:
    assert parameters(-3.0, 127.0, Scheme.SYMMETRIC, i8) == Quantization((1.0,), (0,))
    assert parameters(-128.0, 3.0, Scheme.SYMMETRIC, i8) == Quantization((1.0,), (0,))
    assert parameters(0.0, 127.0, Scheme.SYMMETRIC, u8) == Quantization((1.0,), (128,))
    assert parameters(-32768.0, 3.0, Scheme.SYMMETRIC, i16) == Quantization((1.0,), (0,))


def test_symmetric_uint8_has_zero_at_the_end_where_nothing_is_negative() -> None:
    assert parameters(0.5, 255.0, Scheme.SYMMETRIC_UINT8, i8) == Quantization((1.0,), (-128,))
    assert parameters(-0.5, 127.0, Scheme.SYMMETRIC_UINT8, i8) == Quantization((1.0,), (0,))
    assert parameters(0.0, 255.0, Scheme.SYMMETRIC_UINT8, u8) == Quantization((1.0,), (0,))


def test_powers_of_two_cover_the_range() -> None:
    assert parameters(-3.0, 127.0, Scheme.POWER_OF_TWO, i8) == Quantization((1.0,), (0,))
    assert parameters(-3.0, 127.5, Scheme.POWER_OF_TWO, i8) == Quantization((2.0,), (0,))
    assert parameters(-0.25, 0.1, Scheme.POWER_OF_TWO, i8) == Quantization((2.0**-9,), (0,))


@pytest.mark.parametrize("scheme", Scheme)
def test_zeros_alone_have_the_scale_one(scheme: Scheme) -> None:
    assert parameters(0.0, 0.0, scheme, i8).scales == (1.0,)


@pytest.mark.parametrize("scheme", Scheme)
@pytest.mark.parametrize("dtype", ELEMENT_TYPES, ids=str)
def test_scales_are_normal_numbers_for_tiny_and_huge_ranges(scheme: Scheme, dtype) -> None:
    for low, high in ((0.0, 1e-45), (-1e-40, 0.0), (-HUGE, HUGE), (0.0, HUGE)):
        (scale,) = parameters(low, high, scheme, dtype).scales
        assert np.isfinite(np.float32(scale))
        assert scale >= LEAST_SCALE
        assert np.float32(scale) == scale


@pytest.mark.parametrize("scheme", Scheme)
@pytest.mark.parametrize("dtype", ELEMENT_TYPES, ids=str)
def test_ends_are_within_half_a_step_and_zero_is_exact(scheme: Scheme, dtype) -> None:
    rng = np.random.default_rng(0)
    ends = rng.choice([-1.0, 0.0, 1.0], (2, 300)) * 2.0 ** rng.uniform(-90, 100, (2, 300))
    low, high = ends.min(0), ends.max(0)
    least, greatest = dtype.limits
    scales, offsets = fit(low, high, scheme, dtype.limits)
    assert ((least <= offsets) & (offsets <= greatest)).all()
    slack = 0.5 * (1 + 1e-2) * scales  # f32 rounds the scale, which counts for 2^16 steps
    assert (scales * (least - offsets) <= np.minimum(low, 0) + slack).all()
    assert (scales * (greatest - offsets) >= np.maximum(high, 0) - slack).all()


def test_many_ranges_are_fitted_at_once() -> None:
    low, high = np.array([-1.0, 0.0, -7.0]), np.array([7.0, 15.0, 0.0])
    scales, offsets = fit(low, high, Scheme.ASYMMETRIC, (0, 15))
    np.testing.assert_allclose(scales, [8 / 15, 1.0, 7 / 15])
    assert offsets.tolist() == [2, 0, 15]
    assert (scales.dtype, offsets.dtype) == (np.float32, np.int32)


def test_16_bits_are_symmetric_and_cover_all() -> None:
    asked = Scheme.ASYMMETRIC, Method.MSE
    assert chosen_for(u8, *asked) == asked
    assert chosen_for(i16, *asked) == (Scheme.SYMMETRIC, Method.MINMAX)
    assert chosen_for(i16, Scheme.POWER_OF_TWO, Method.MSE)[0] is Scheme.POWER_OF_TWO


def test_activations_have_bytes_or_two() -> None:
    with pytest.raises(UsageError) as caught:
        parameters(0.0, 1.0, Scheme.SYMMETRIC, i32)
    assert caught.value.what == "activations are quantized to i8, u8, i16, not to i32"
