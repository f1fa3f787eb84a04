"""Convolutions and matrix products of quantized integers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tflite")
pytest.importorskip("ai_edge_litert")

import afterglow as ag
from afterglow.support.errors import UnsupportedError
from tests.frontends.tflite.importers.quantized.forms import Forms, run_steps

KINDS = [
    ("int8", "int8", True, 0.05, "int32"),
    ("int8", "int8", False, 0.02, "int32"),
    ("int8", "int8", True, 0.00002, "int32"),
    ("uint8", "uint8", False, 0.05, "int32"),
    ("int16", "int8", True, 0.1, "int64"),
    ("int16", "int8", False, 0.1, "int32"),
]
"""Of x, of the weight, whether each row has its scale, the scale of the result, of the bias."""


def add(
    forms: Forms,
    op: str,
    kind: tuple[Any, ...],
    x: tuple[int, ...],
    weight: tuple[int, ...],
    y: tuple[int, ...],
    options: str,
    **fields: Any,
) -> None:
    """An op on x and a weight, with a bias."""
    dtype, stored, per_row, result_scale, bias_type = kind
    axis = 3 if op == "DEPTHWISE_CONV_2D" else 0
    rows = weight[axis]
    scales = forms.rng.uniform(0.001, 0.01, rows if per_row else 1).astype(np.float32)
    wide = dtype == "int16"
    given = forms.input(dtype, x, np.float32(0.02), 0 if wide else 3)
    zero = 0 if stored == "int8" else 120
    matrix = forms.constant(forms.numbers(stored, weight), scales, zero, axis=axis)
    numbers = forms.rng.integers(-1000, 1000, rows).astype(bias_type)
    bias = forms.constant(numbers, np.float32(0.02) * scales)
    result = forms.tensor(dtype, y, result_scale, 0 if wide else 4)
    if wide and op != "DEPTHWISE_CONV_2D":
        fields["quantized_bias_type"] = 2 if bias_type == "int32" else 4
    forms.op(op, [given, matrix, bias], result, options, **fields)


def test_convolutions_have_the_bits_of_the_reference(tmp_path: Path) -> None:
    forms = Forms()
    steps = {"stride_w": 1, "stride_h": 1}
    for activation, kind in enumerate(KINDS):
        add(
            forms, "CONV_2D", kind, (1, 6, 5, 5), (7, 3, 3, 5), (1, 6, 5, 7), "Conv2D",
            padding=0, fused_activation_function=activation % 4, **steps,
        )  # fmt: skip
    add(
        forms, "CONV_2D", KINDS[0], (1, 8, 9, 4), (6, 3, 3, 2), (1, 4, 5, 6), "Conv2D",
        padding=1, dilation_w_factor=2, dilation_h_factor=2, **steps,
    )  # fmt: skip
    for kind in KINDS:
        if kind[-2:] != (0.1, "int32"):
            add(
                forms, "DEPTHWISE_CONV_2D", kind, (1, 6, 5, 6), (1, 3, 3, 12), (1, 3, 3, 12),
                "DepthwiseConv2D", padding=0, stride_w=2, stride_h=2, depth_multiplier=2,
            )  # fmt: skip
    forms.check(tmp_path)


def test_matrix_products_have_the_bits_of_the_reference(tmp_path: Path) -> None:
    forms = Forms()
    for kind in KINDS:
        add(forms, "FULLY_CONNECTED", kind, (3, 2, 20), (9, 20), (6, 9), "FullyConnected")
    kept = {"keep_num_dims": True, "fused_activation_function": 1}
    shapes = (3, 2, 20), (9, 20), (3, 2, 9)
    add(forms, "FULLY_CONNECTED", KINDS[0], *shapes, "FullyConnected", **kept)
    forms.check(tmp_path)


def test_transposed_convolutions_have_the_bits_of_the_reference(tmp_path: Path) -> None:
    forms = Forms()
    for dtype, stored, per_row, _, bias_type in KINDS[:2] + KINDS[3:5]:
        rows, wide = 4 if per_row else 1, dtype == "int16"
        scales = forms.rng.uniform(0.002, 0.01, rows).astype(np.float32)
        shape = forms.constant(np.array([1, 9, 9, 4], np.int32))
        zero = 0 if stored == "int8" else 120
        weight = forms.constant(forms.numbers(stored, (4, 3, 3, 6)), scales, zero)
        x = forms.input(dtype, (1, 5, 5, 6), 0.02, 0 if wide else 3)
        bias = forms.constant(np.arange(4, dtype=bias_type), np.float32(0.02) * scales)
        y = forms.tensor(dtype, (1, 9, 9, 4), 0.1, 0 if wide else 3)
        steps = {"stride_w": 2, "stride_h": 2}
        forms.op("TRANSPOSE_CONV", [shape, weight, x, bias], y, "TransposeConv", **steps)
    forms.check(tmp_path)


def test_products_of_two_activations_have_the_bits_of_the_reference(tmp_path: Path) -> None:
    forms = Forms()
    for adj_x in (False, True):
        for adj_y in (False, True):
            x = forms.input("int8", (2, 20, 3) if adj_x else (2, 3, 20), 0.02, 3)
            weight = forms.input("int8", (2, 5, 20) if adj_y else (2, 20, 5), 0.03, -2)
            y = forms.tensor("int8", (2, 3, 5), 0.2, 4)
            forms.op("BATCH_MATMUL", [x, weight], y, "BatchMatMul", adj_x=adj_x, adj_y=adj_y)
    forms.check(tmp_path)


def test_weights_of_real_numbers_are_dequantized(tmp_path: Path) -> None:
    forms = Forms()
    scales = forms.rng.uniform(0.002, 0.01, 9).astype(np.float32)
    stored = forms.numbers("int8", (9, 64))
    x = forms.input("float32", (4, 64))
    y = forms.tensor("float32", (4, 9))
    forms.op("FULLY_CONNECTED", [x, forms.constant(stored, scales)], y, "FullyConnected")
    got = forms.run(tmp_path)[y]
    np.testing.assert_allclose(got, forms.feeds[x] @ (stored * scales[:, None]).T, atol=1e-4)


def test_products_of_two_operands_of_16_bits_are_refused(tmp_path: Path) -> None:
    forms = Forms()
    x, weight = (forms.input("int16", shape, 0.02) for shape in ((3, 4), (4, 5)))
    forms.op("BATCH_MATMUL", [x, weight], forms.tensor("int16", (3, 5), 0.2), "BatchMatMul")
    with pytest.raises(UnsupportedError, match="products of two operands of 16 bits"):
        forms.run(tmp_path)


def test_filters_by_time_have_the_bits_of_the_reference_step_after_step(tmp_path: Path) -> None:
    forms = Forms()
    x = forms.input("int8", (2, 5), 0.05, 3)
    features = forms.constant(forms.numbers("int8", (6, 5)), 0.01)
    times = forms.constant(forms.numbers("int16", (6, 4)), 0.00003)
    bias = forms.constant(np.arange(3, dtype=np.int32), 0.00001)
    state = forms.tensor("int16", (2, 24), 0.0005, variable=True)
    y = forms.tensor("int8", (2, 3), 0.05, -3)
    forms.op(
        "SVDF", [x, features, times, bias, state], y, "SVDF", rank=2, fused_activation_function=1
    )
    feeds = [{x: forms.numbers("int8", (2, 5))} for _ in range(6)]
    (tmp_path / "model.tflite").write_bytes(forms.file())
    model = ag.compile(tmp_path / "model.tflite", backend="interpreter")
    for feed, want in zip(feeds, run_steps(forms.file(), feeds), strict=True):
        np.testing.assert_array_equal(model(feed), want[y])
