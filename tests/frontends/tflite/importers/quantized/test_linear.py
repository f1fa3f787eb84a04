"""Convolutions and matrix products of quantized integers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tflite")
pytest.importorskip("ai_edge_litert")

from tests.frontends.tflite.importers.quantized.forms import Forms

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
