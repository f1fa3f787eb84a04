"""Conversions between real numbers and quantized integers, and softmax."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tflite")
pytest.importorskip("ai_edge_litert")

from afterglow.support.errors import ModelError
from tests.frontends.tflite.importers.quantized.forms import Forms

REQUANTIZED = [
    ("int8", 0.05, 3, "uint8", 0.05, 131),
    ("int8", 0.05, 3, "int8", 0.04, -20),
    ("uint8", 0.05, 3, "int8", 0.02, -20),
    ("int16", 0.0005, 0, "int8", 0.05, -20),
    ("int8", 0.05, -3, "int16", 0.0005, 0),
    ("int32", 0.00000005, 0, "int8", 0.05, -20),
    ("int16", 0.0005, 0, "int32", 0.0000005, 0),
]


def test_conversions_have_the_bits_of_the_reference(tmp_path: Path) -> None:
    forms = Forms()
    for dtype in ("int8", "uint8", "int16"):
        zero = 0 if dtype == "int16" else 3
        x = forms.input("float32", (4, 60))
        forms.feeds[x] = (np.arange(-120, 120).reshape(4, 60) * 0.025).astype(np.float32)
        forms.op("QUANTIZE", [x], forms.tensor(dtype, (4, 60), 0.05, zero), "Quantize")
        stored = forms.input(dtype, (4, 60), 0.037, zero)
        forms.op("DEQUANTIZE", [stored], forms.tensor("float32", (4, 60)), "Dequantize")
    for dtype, scale, zero, wanted, wanted_scale, wanted_zero in REQUANTIZED:
        x = forms.input(dtype, (4, 60), scale, zero)
        y = forms.tensor(wanted, (4, 60), wanted_scale, wanted_zero)
        forms.op("QUANTIZE", [x], y, "Quantize")
    forms.check(tmp_path)


def test_softmax_has_the_bits_of_the_reference(tmp_path: Path) -> None:
    forms = Forms()
    for scale in (0.001, 0.1, 0.5):
        for dtype, zero, beta in (("int8", -128, 1.0), ("uint8", 0, 0.7)):
            x = forms.input(dtype, (3, 30), scale, 7)
            forms.op(
                "SOFTMAX", [x], forms.tensor(dtype, (3, 30), 1 / 256, zero), "Softmax", beta=beta
            )
        x = forms.input("int16", (3, 30), scale / 256)
        forms.op("SOFTMAX", [x], forms.tensor("int16", (3, 30), 1 / 32768), "Softmax", beta=1.0)
    forms.check(tmp_path)


@pytest.mark.parametrize(
    ("scale", "zero_point", "why"),
    [
        (0.0, 3, "a scale must be a number above zero, it is 0.0"),
        (-0.5, 3, "a scale must be a number above zero, it is -0.5"),
        ((0.5, 0.25), 3, "one scale is needed for the whole tensor, there are 2"),
        ((), 0, "a tensor of quantized integers has no scale"),
        (0.5, 1 << 40, "a zero point must be one of the integers, it is 1,099,511,627,776"),
    ],
)
def test_scales_that_nothing_can_have_are_refused(
    scale: Any, zero_point: int, why: str, tmp_path: Path
) -> None:
    forms = Forms()
    x = forms.input("int8", (2, 3), scale, zero_point)
    forms.op("RELU", [x], forms.tensor("int8", (2, 3), 0.5, 3))
    with pytest.raises(ModelError, match=why):
        forms.run(tmp_path)


def test_wide_integers_with_a_scale_are_added_as_they_are(tmp_path: Path) -> None:
    forms = Forms()
    x, row = (forms.input("int32", (4,), 0.5) for _ in range(2))
    forms.op("ADD", [x, row], forms.tensor("int32", (4,), 0.25), "Add")
    forms.check(tmp_path)
