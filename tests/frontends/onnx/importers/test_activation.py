"""Activations, normalizations and quantization where versions of ONNX differ."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.onnx.against_runtime import check_node

rng = np.random.default_rng(5)


def floats(*shape: int) -> np.ndarray:
    return rng.uniform(-2, 2, shape).astype(np.float32)


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
def test_old_softmax_runs_over_all_axes_from_one_on(op_type: str, axis: int) -> None:
    check_node(op_type, floats(2, 3, 4), version=11, axis=axis)
    check_node(op_type, floats(2, 3, 4), version=13, axis=axis)


def test_clip_takes_attributes_or_inputs() -> None:
    low, high = np.array(-0.5, np.float32), np.array(1, np.float32)
    check_node("Clip", floats(5), version=6, min=-0.5, max=1.0)
    check_node("Clip", floats(5), version=6, min=-0.5)
    check_node("Clip", floats(5), low, high, constants=(1, 2))
    check_node("Clip", floats(5), low, high)
    check_node("Clip", floats(5), None, high)
    check_node("Clip", floats(5), low, high, constants=(1,))


def test_clip_keeps_large_integers_exact() -> None:
    x = np.array([2**60 + 1, -(2**60) - 1, 7], np.int64)
    bounds = np.array(-(2**60) + 1, np.int64), np.array(2**60 - 1, np.int64)
    check_node("Clip", x, *bounds, constants=(1, 2), tolerance=0)


def test_slopes_broadcast_to_the_operand() -> None:
    check_node("PRelu", floats(2, 3, 4, 4), floats(3, 1, 1))
    check_node("PRelu", floats(2, 3), floats(1))


def test_shrink_of_integers() -> None:
    check_node("Shrink", np.arange(-3, 4, dtype=np.int32), lambd=1.5, bias=1.0)


@pytest.mark.parametrize("version", [7, 9, 14, 15])
def test_batch_normalization(version: int) -> None:
    scale, bias, mean = (floats(3) for _ in range(3))
    operands = scale, bias, mean, np.abs(floats(3))
    check_node("BatchNormalization", floats(2, 3, 4, 5), *operands, version=version, tolerance=1e-4)
    check_node("BatchNormalization", floats(4, 3), *operands, version=version, tolerance=1e-4)


def test_layer_normalization_with_statistics() -> None:
    x, scale, bias = floats(2, 3, 8), floats(3, 8), floats(3, 8)
    check_node("LayerNormalization", x, scale, bias, axis=1, outputs=3)
    check_node("LayerNormalization", x, scale, axis=1, outputs=(True, False, True))


@pytest.mark.parametrize("size", [1, 3, 5])
def test_lrn(size: int) -> None:
    check_node("LRN", floats(2, 6, 3, 3), size=size, alpha=0.3, beta=0.6, bias=1.5)


def test_quantization_by_blocks() -> None:
    scale, zero = np.abs(floats(3, 2)) + 0.1, rng.integers(-9, 9, (3, 2)).astype(np.int8)
    check_node("QuantizeLinear", floats(3, 7), scale, zero, axis=1, block_size=4, tolerance=1)
    stored = rng.integers(-99, 99, (3, 7)).astype(np.int8)
    check_node("DequantizeLinear", stored, scale, zero, axis=1, block_size=4)


def test_dynamic_quantization() -> None:
    check_node("DynamicQuantizeLinear", floats(3, 7), outputs=3)
    check_node("DynamicQuantizeLinear", np.abs(floats(3, 7)), outputs=3)
    check_node("DynamicQuantizeLinear", np.zeros(4, np.float32), outputs=3)


def test_quantized_products() -> None:
    a, b = rng.integers(0, 256, (2, 4)).astype(np.uint8), rng.integers(0, 256, (4, 3))
    one = np.array(0.02, np.float32), np.array(120, np.uint8)
    check_node("QLinearMatMul", a, *one, b.astype(np.uint8), *one, *one, tolerance=1)


def test_quantized_convolution_with_scales_of_channels() -> None:
    x = rng.integers(0, 256, (1, 2, 5, 5)).astype(np.uint8)
    # With weights of 7 bits, ONNX Runtime's products saturate on no processor.
    weight = rng.integers(-64, 64, (4, 2, 3, 3)).astype(np.int8)
    scales, zeros = np.abs(floats(4)) * 0.01 + 1e-3, np.zeros(4, np.int8)
    bias = rng.integers(-999, 999, 4).astype(np.int32)
    one = np.array(0.02, np.float32), np.array(120, np.uint8)
    pads = {"pads": [1, 1, 1, 1], "strides": [2, 2]}
    check_node(
        "QLinearConv",
        *(x, *one, weight, scales, zeros, *one, bias),
        constants=(1, 2, 3, 4, 5, 6, 7, 8),
        tolerance=1,
        **pads,
    )
