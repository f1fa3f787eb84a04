"""Biases that make up for the mean error of rounded weights."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import Add
from afterglow.ops.linear import MatMul
from afterglow.quantization.correct_bias import expected_error
from afterglow.quantization.observation import ChannelRanges
from afterglow.quantization.weights import quantize_weight
from afterglow.types import Array
from afterglow.types.dtype import i4


def inputs(*shape: int) -> Array:
    rng = np.random.default_rng(0)
    return (rng.normal(size=shape) + rng.uniform(0, 3, shape[-1])).astype(np.float32)


def weights(*shape: int) -> Array:
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("transposed", [False, True])
def test_the_mean_error_of_a_product_is_taken_back(transposed: bool) -> None:
    x, weight = inputs(500, 24), weights(*((10, 24) if transposed else (24, 10)))
    op = MatMul(transpose_rhs=transposed)
    rounded = quantize_weight(weight, 0 if transposed else 1, i4).dequantized()
    seen = ChannelRanges.of(x)
    assert seen is not None
    found = expected_error(op, rounded - weight, seen.mean)
    errors = op.evaluate(x, rounded) - op.evaluate(x, weight)
    np.testing.assert_allclose(found, errors.mean(0), atol=1e-4)
    assert np.square(errors - found).mean() < 0.5 * np.square(errors).mean()


@pytest.mark.parametrize("groups", [1, 2, 12])
def test_the_mean_error_of_a_convolution_is_taken_back(groups: int) -> None:
    x, weight = inputs(3, 9, 8, 12), weights(24, 3, 3, 12 // groups)
    op = Conv((1, 1), (0, 0, 0, 0), (1, 1), groups)
    rounded = quantize_weight(weight, 0, i4).dequantized()
    seen = ChannelRanges.of(x)
    assert seen is not None
    found = expected_error(op, rounded - weight, seen.mean)
    errors = op.evaluate(x, rounded) - op.evaluate(x, weight)
    np.testing.assert_allclose(found, errors.mean((0, 1, 2)), atol=0.2)
    assert np.square(errors - found).mean() < 0.7 * np.square(errors).mean()


def test_other_ops_have_no_weight() -> None:
    with pytest.raises(TypeError, match="no expected error of"):
        expected_error(Add(), weights(2, 2), weights(2))
