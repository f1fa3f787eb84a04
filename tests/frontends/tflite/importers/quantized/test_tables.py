"""Functions of one quantized number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tflite")
pytest.importorskip("ai_edge_litert")

from tests.frontends.tflite.importers.quantized.forms import Forms

BYTES = ("int8", "uint8")
ALL = (*BYTES, "int16")


def add(
    forms: Forms,
    op: str,
    dtype: str,
    scales: tuple[float, float],
    points: tuple[int, int] = (3, -5),
    options: str = "",
    **fields: Any,
) -> None:
    """A function of all bytes, or of many integers of 16 bits, whose steps are finer."""
    limits = np.iinfo(dtype)
    numbers = np.arange(limits.min, limits.max + 1, 1 if dtype in BYTES else 97).astype(dtype)
    zeros = tuple(point + 128 * (dtype == "uint8") for point in points)
    fine = 1.0
    if dtype == "int16":
        zeros, fine = (0, 0), 1 / 256
    x = forms.input(dtype, numbers.shape, scales[0] * fine, zeros[0])
    forms.feeds[x] = numbers
    y = forms.tensor(dtype, numbers.shape, scales[1] * fine, zeros[1])
    forms.op(op, [x], y, options, **fields)


def test_rectifiers_have_the_bits_of_the_reference(tmp_path: Path) -> None:
    forms = Forms()
    for dtype in ALL:
        for op in ("RELU", "RELU6"):
            add(forms, op, dtype, (0.05, 0.04))
        add(forms, "RELU", dtype, (0.05, 0.05), (3, 3))
        for slope in (0.3, -0.2):
            add(forms, "LEAKY_RELU", dtype, (0.05, 0.04), options="LeakyRelu", alpha=slope)
    for dtype in BYTES:
        for op in ("RELU_N1_TO_1", "RELU_0_TO_1"):
            add(forms, op, dtype, (0.05, 0.04))
        add(forms, "HARD_SWISH", dtype, (0.05, 0.04), options="HardSwish")
        add(forms, "HARD_SWISH", dtype, (0.2, 0.11), options="HardSwish")
    forms.check(tmp_path)


def test_sigmoids_have_the_bits_of_the_reference(tmp_path: Path) -> None:
    forms = Forms()
    for dtype in BYTES:
        add(forms, "LOGISTIC", dtype, (0.05, 1 / 256), (3, -128))
        add(forms, "TANH", dtype, (0.05, 1 / 128), (3, 0))
    for scale in (1 / 16, 1 / 8, 0.05, 0.3):
        add(forms, "LOGISTIC", "int16", (scale, 1 / 128))
        add(forms, "TANH", "int16", (scale, 1 / 128))
    forms.check(tmp_path)


def test_other_functions_have_the_bits_of_the_reference(tmp_path: Path) -> None:
    forms = Forms()
    for dtype in ALL:
        for approximate in (False, True):
            add(forms, "GELU", dtype, (0.05, 0.04), options="Gelu", approximate=approximate)
    for dtype in ("int8", "int16"):
        add(forms, "ABS", dtype, (0.05, 0.04), options="Abs")
        add(forms, "ABS", dtype, (0.05, 0.05), options="Abs")
        add(forms, "EXP", dtype, (0.02, 0.04), options="Exp")
        add(forms, "LOG", dtype, (0.02, 0.04))
    add(forms, "RSQRT", "int8", (0.02, 0.04), (-128, 3))
    forms.check(tmp_path)
