"""Layers as matrix products."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.graph import Op
from afterglow.ops.convolution import Conv
from afterglow.ops.linear import MatMul
from afterglow.quantization.layers import (
    input_moments,
    input_rows,
    round_layer,
    weight_of_rows,
    weight_rows,
)
from afterglow.quantization.weights import QuantizedWeight, quantize_groups, quantize_weight
from afterglow.types import Array
from afterglow.types.dtype import i4

LAYERS = {
    "product": (MatMul(), (40, 24, 36), (36, 10)),
    "transposed": (MatMul(transpose_rhs=True), (3, 80, 36), (10, 36)),
    "convolution": (Conv((2, 1), (1, 0, 1, 2), (1, 2)), (2, 9, 8, 6), (10, 3, 2, 6)),
    "grouped": (Conv((1, 1), (1, 1, 1, 1), (1, 1), 3), (2, 9, 8, 6), (9, 3, 3, 2)),
    "depthwise": (Conv((1, 1), (1, 1, 1, 1), (1, 1), 6), (2, 9, 8, 6), (6, 3, 3, 1)),
    "one axis": (Conv((1,), (1, 1), (1,)), (2, 90, 6), (10, 3, 6)),
}
each_layer = pytest.mark.parametrize(("op", "x", "weight"), LAYERS.values(), ids=LAYERS)


def smooth(shape: tuple[int, ...]) -> Array:
    """Inputs whose neighbours are alike, as those of images are."""
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    for axis in range(1, len(shape)):
        x = x + 0.9 * np.roll(x, 1, axis)
    return x


def weights(shape: tuple[int, ...]) -> Array:
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def error(op: Op, x: Array, weight: Array, found: QuantizedWeight) -> float:
    """The mean squared error of the results."""
    difference = op.evaluate(x, found.dequantized()) - op.evaluate(x, weight)
    return float(np.square(difference).mean())


@each_layer
def test_rows_times_inputs_are_the_results(op, x, weight) -> None:
    inputs, data = smooth(x), weights(weight)
    rows, samples = weight_rows(op, data), input_rows(op, weight, inputs, 10**6)
    products = np.einsum("gnd,grd->ngr", samples, rows)
    expected = op.evaluate(inputs, data)
    np.testing.assert_allclose(products.reshape(expected.shape), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(weight_of_rows(op, rows, weight), data)


@each_layer
def test_many_inputs_are_sampled_evenly(op, x, weight) -> None:
    inputs = smooth(x)
    few, all_of_them = (input_rows(op, weight, inputs, most) for most in (50, 10**6))
    assert few.shape == (all_of_them.shape[0], 50, all_of_them.shape[2])
    np.testing.assert_array_equal(few[:, [0, -1]], all_of_them[:, [0, -1]])


@each_layer
def test_a_layer_is_rounded_for_its_results(op, x, weight) -> None:
    inputs, data = smooth(x), weights(weight)
    axis = int(op == MatMul())
    nearest = quantize_weight(data, axis, i4)
    found = round_layer(op, data, nearest, [input_moments(op, weight, inputs)])
    assert found.stored.dtype == nearest.stored.dtype
    want = op.evaluate(inputs, data)
    errors = [
        np.square(op.evaluate(inputs, w.dequantized()) - want).mean() for w in (nearest, found)
    ]
    assert errors[1] < 0.8 * errors[0]


@pytest.mark.parametrize("name", ["product", "transposed"])
def test_groups_along_the_depth_keep_their_scales(name: str) -> None:
    op, x, weight = LAYERS[name]
    inputs, data = smooth(x), weights(weight)
    nearest = quantize_groups(data, weight.index(36), 16)
    found = round_layer(op, data, nearest, [input_moments(op, weight, inputs)])
    want = op.evaluate(inputs, data)
    errors = [
        np.square(op.evaluate(inputs, w.dequantized()) - want).mean() for w in (nearest, found)
    ]
    assert errors[1] < 0.8 * errors[0]


def test_one_scale_serves_all_rows() -> None:
    op, x, weight = LAYERS["convolution"]
    inputs, data = smooth(x), weights(weight)
    nearest = quantize_weight(data, None)
    found = round_layer(op, data, nearest, [input_moments(op, weight, inputs)])
    assert np.abs(found.stored).max() <= 127
    assert np.abs(found.stored.astype(int) - nearest.stored).max() > 0
