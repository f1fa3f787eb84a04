"""The com.microsoft domain, against ONNX Runtime."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from tests.frontends.onnx.against_runtime import MICROSOFT, check_node

check = partial(check_node, domain=MICROSOFT)
rng = np.random.default_rng(7)


def floats(*shape: int) -> np.ndarray:
    return rng.uniform(-2, 2, shape).astype(np.float32)


def bytes_(*shape: int, dtype: type = np.uint8) -> np.ndarray:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def seven_bits(*shape: int) -> np.ndarray:
    """Weights with which ONNX Runtime's products saturate on no processor."""
    return bytes_(*shape, dtype=np.int8) // 2


def number(x: float) -> np.ndarray:
    return np.array(x, np.float32)


def zero(x: int, dtype: type = np.uint8) -> np.ndarray:
    return np.array(x, dtype)


def test_gelus() -> None:
    check("Gelu", floats(2, 5))
    check("BiasGelu", floats(2, 3, 8), floats(8))
    check("FastGelu", floats(2, 3, 8), tolerance=1e-4)
    check("FastGelu", floats(2, 3, 8), floats(8), tolerance=1e-4)
    check("QuickGelu", floats(2, 5))
    check("QuickGelu", floats(2, 5), alpha=1.0)


def test_normalizations() -> None:
    check_node("SimplifiedLayerNormalization", floats(2, 3, 8), floats(8), axis=-1, epsilon=1e-6)
    check("SkipLayerNormalization", floats(2, 3, 8), floats(2, 3, 8), floats(8))
    x, skip, scale, shift, bias = floats(2, 3, 8), floats(2, 3, 8), *(floats(8) for _ in range(3))
    wanted = (True, False, False, True)
    check("SkipLayerNormalization", x, skip, scale, shift, bias, outputs=wanted, epsilon=1e-5)
    check("SkipLayerNormalization", x, floats(3, 8), scale, shift)
    check("SkipSimplifiedLayerNormalization", x, skip, scale, bias, outputs=wanted)


def test_embeddings() -> None:
    words, segments = rng.integers(0, 9, (2, 4)), rng.integers(0, 2, (2, 4))
    words, segments = words.astype(np.int32), segments.astype(np.int32)
    tables = floats(9, 8), floats(4, 8), floats(2, 8)
    affine = floats(8), floats(8)
    mask = np.array([[1, 1, 0, 0], [1, 1, 1, 0]], np.int32)
    check("EmbedLayerNormalization", words, segments, *tables, *affine, mask, outputs=2)
    check("EmbedLayerNormalization", words, None, *tables[:2], None, *affine, outputs=(True, True))


@pytest.mark.parametrize("activation", ["Relu", "Tanh", "Sigmoid", "LeakyRelu", "Clip"])
def test_fused_convolutions(activation: str) -> None:
    parameters = {"LeakyRelu": [0.3], "Clip": [-1.0, 1.5]}.get(activation)
    more = {} if parameters is None else {"activation_params": parameters}
    x, weight, bias = floats(1, 4, 6, 6), floats(4, 2, 3, 3), floats(4)
    check("FusedConv", x, weight, bias, activation=activation, group=2, tolerance=1e-4, **more)


def test_fused_convolution_with_a_sum() -> None:
    x, weight, bias, other = floats(1, 4, 6, 6), floats(3, 4, 3, 3), floats(3), floats(1, 3, 4, 4)
    check("FusedConv", x, weight, bias, other, activation="Relu", tolerance=1e-4)


def test_fused_products() -> None:
    check("FusedMatMul", floats(2, 4, 3), floats(2, 4, 5), transA=1, alpha=0.5)
    check("FusedMatMul", floats(2, 3, 4), floats(5, 4), transB=1)
    check("TransposeMatMul", floats(4, 3), floats(4, 5), transA=1)
    a, b, c = floats(3, 4), floats(5, 4), floats(5)
    check("FusedGemm", a, b, c, transB=1, alpha=0.5, beta=2.0, activation="Relu")
    check("FusedGemm", a, b, c, transB=1, activation="LeakyRelu", activation_alpha=0.2)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("columns", [64, 40])
@pytest.mark.parametrize("zeros", [True, False])
def test_products_with_packed_weights(bits: int, columns: int, zeros: bool) -> None:
    rows, block = 5, 32
    blocks = -(-columns // block)
    weight = bytes_(rows, blocks, block * bits // 8)
    scales = floats(rows * blocks)
    zero_points = bytes_(rows * -(-blocks * bits // 8)) if zeros else None
    check(
        "MatMulNBits",
        *(floats(2, 3, columns), weight, scales, zero_points),
        constants=(1, 2, 3) if zeros else (1, 2),
        tolerance=1e-2,
        **{"K": columns, "N": rows, "bits": bits, "block_size": block},
    )


def test_packed_attention() -> None:
    x, weight, bias = floats(2, 4, 6), floats(6, 24), floats(24)
    check("Attention", x, weight, bias, num_heads=2)
    check("Attention", x, weight, bias, num_heads=2, unidirectional=1)
    check("Attention", x, weight, bias, num_heads=2, scale=0.3)
    check("Attention", x, floats(6, 20), floats(20), num_heads=2, qkv_hidden_sizes=[8, 8, 4])


def test_packed_attention_with_masks() -> None:
    x, weight, bias = floats(2, 4, 6), floats(6, 24), floats(24)
    raw = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)
    check("Attention", x, weight, bias, raw, num_heads=2)
    check("Attention", x, weight, bias, np.array([3, 2], np.int32), num_heads=2)
    check("Attention", x, weight, bias, np.array([4, 3, 1, 0], np.int32), num_heads=2)
    each = rng.integers(0, 2, (2, 4, 4)).astype(np.int32) | np.eye(4, dtype=np.int32)
    check("Attention", x, weight, bias, each, num_heads=2)
    check("Attention", x, weight, bias, raw, None, floats(2, 2, 4, 4), num_heads=2)


def test_packed_attention_with_past() -> None:
    x, weight, bias, past = floats(2, 3, 6), floats(6, 24), floats(24), floats(2, 2, 2, 5, 4)
    check("Attention", x, weight, bias, None, past, num_heads=2, unidirectional=1, outputs=2)


def test_multi_head_attention() -> None:
    q, k, v, bias = floats(2, 3, 8), floats(2, 5, 8), floats(2, 5, 6), floats(22)
    check("MultiHeadAttention", q, k, v, num_heads=2)
    check("MultiHeadAttention", q, k, v, bias, num_heads=2)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    check("MultiHeadAttention", q, k, v, bias, mask, num_heads=2)
    check("MultiHeadAttention", q, k, v, None, None, floats(1, 2, 3, 5), num_heads=2)
    past = floats(2, 2, 4, 4), floats(2, 2, 4, 4)
    check("MultiHeadAttention", q, k, k, None, None, None, *past, num_heads=2, outputs=3)


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding(interleaved: int) -> None:
    cosine, sine = floats(10, 2), floats(10, 2)
    places = rng.integers(0, 10, (2, 3))
    check("RotaryEmbedding", floats(2, 3, 8), places, cosine, sine, interleaved=interleaved)
    check("RotaryEmbedding", floats(2, 2, 3, 4), places, cosine, sine, interleaved=interleaved)
    start = np.array([4], np.int64)
    check("RotaryEmbedding", floats(2, 3, 8), start, cosine, sine, interleaved=interleaved)


def test_quantized_arithmetic() -> None:
    for op_type in ("QLinearAdd", "QLinearMul"):
        a = bytes_(2, 3), number(0.02), zero(120)
        b = bytes_(3), number(0.05), zero(99)
        check(op_type, *a, *b, number(0.04), zero(110), tolerance=1)
        small = (bytes_(4, dtype=np.int8), number(0.02), zero(-3, np.int8)) * 2
        check(op_type, *small, number(0.03), zero(5, np.int8), tolerance=1)


def test_quantized_functions() -> None:
    x, y = (bytes_(2, 3, 8), number(0.03), zero(128)), (number(1 / 256), zero(0))
    check("QLinearSigmoid", *x, *y, constants=(1, 2, 3, 4), tolerance=1)
    check("QLinearLeakyRelu", *x, number(0.03), zero(100), alpha=0.1, tolerance=1)
    check("QLinearSoftmax", *x, *y, constants=(1, 2, 3, 4), tolerance=1, axis=-1, opset=13)


def test_quantized_pools() -> None:
    x, y = (bytes_(1, 3, 6, 6), number(0.03), zero(128)), (number(0.02), zero(120))
    pool = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2], "tolerance": 1}
    check("QLinearAveragePool", *x, *y, **pool)
    check("QLinearAveragePool", *x, *y, **pool, count_include_pad=1)
    check("QLinearAveragePool", *x, *y, **pool, channels_last=1)
    check("QLinearGlobalAveragePool", *x, *y, tolerance=1)
    check("QLinearGlobalAveragePool", *x, *y, tolerance=1, channels_last=1)


def test_quantized_concatenation() -> None:
    a = bytes_(2, 3), number(0.02), zero(120)
    b = bytes_(2, 1), number(0.05), zero(99)
    check("QLinearConcat", number(0.04), zero(110), *a, *b, axis=1, tolerance=1)


def test_quantized_products() -> None:
    a, b = floats(2, 3, 4), seven_bits(4, 5)
    check("DynamicQuantizeMatMul", a, b, number(0.02), zero(3, np.int8), floats(5), tolerance=1e-4)
    check("DynamicQuantizeMatMul", a, b, np.abs(floats(5)), tolerance=1e-4)
    pair = bytes_(2, 3, 4), bytes_(4, 5), number(0.03), number(0.02)
    check("MatMulIntegerToFloat", *pair, zero(99), zero(130), floats(5), tolerance=1e-4)
    check("MatMulIntegerToFloat", *pair[:3], np.abs(floats(5)), tolerance=1e-4)


def test_quantized_gemm() -> None:
    a = bytes_(2, 4), number(0.02), zero(120)
    b = bytes_(5, 4, dtype=np.int8), number(0.05), zero(3, np.int8)
    c = rng.integers(-99, 99, 5).astype(np.int32)
    check("QGemm", *a, *b, c, transB=1, tolerance=1e-4)
    check("QGemm", *a, *b, c, number(0.5), zero(100), transB=1, tolerance=1)


def test_quantization_of_sixteen_bits() -> None:
    point = zero(30000, np.uint16)
    check("QuantizeLinear", floats(2, 3), number(1e-4), point, tolerance=1)
    check("DequantizeLinear", bytes_(2, 3, dtype=np.uint16), number(1e-4), point)


def test_attention_of_quantized_numbers() -> None:
    x, weight, bias = bytes_(2, 4, 6), seven_bits(6, 24), floats(24)
    scales = number(0.02), number(0.01)
    zeros = zero(120), zero(0, np.int8)
    mask = np.array([3, 4], np.int32)
    check("QAttention", x, weight, bias, *scales, None, *zeros, num_heads=2, tolerance=1e-4)
    check("QAttention", x, weight, bias, *scales, mask, *zeros, num_heads=2, tolerance=1e-4)


def test_quantized_convolution_of_any_layout() -> None:
    x, weight = bytes_(1, 3, 6, 6), seven_bits(4, 3, 3, 3)
    scale = number(0.02), zero(128), weight, number(0.01), zero(0, np.int8), number(0.1), zero(128)
    fixed = {"constants": (3, 4, 5), "tolerance": 1, "pads": [1, 1, 1, 1]}
    check("QLinearConv", x, *scale, **fixed)
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    check("QLinearConv", last, *scale, **fixed, channels_last=1)


def test_quantized_choice() -> None:
    condition = np.array([[True, False, True]])
    x = bytes_(2, 3), number(0.02), zero(120)
    y = bytes_(2, 1), number(0.05), zero(99)
    fixed = (2, 5, 7)
    check("QLinearWhere", condition, *x, *y, number(0.04), zero(110), tolerance=1, constants=fixed)


def test_quantized_embeddings() -> None:
    tables = bytes_(20, 8), bytes_(6, 8), bytes_(2, 8), bytes_(8), bytes_(8)
    scales, zeros = (number(0.02),) * 5, (zero(120),) * 5
    words = rng.integers(0, 20, (2, 5)).astype(np.int32)
    segments = rng.integers(0, 2, (2, 5)).astype(np.int32)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    given = (words, segments, *tables, mask, *scales, *zeros)
    check("QEmbedLayerNormalization", *given, outputs=2, tolerance=1e-4)
