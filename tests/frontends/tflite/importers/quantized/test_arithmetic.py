"""Arithmetic of two quantized operands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tflite")
pytest.importorskip("ai_edge_litert")

from afterglow.support.errors import UnsupportedError
from tests.frontends.tflite.importers.quantized.forms import Forms

BYTES = ("int8", "uint8")
ALL = (*BYTES, "int16")
COMPARISONS = ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual")


def add(
    forms: Forms,
    op: str,
    dtype: str,
    scales: tuple[float, float, float],
    options: str = "",
    result: str = "",
    **fields: Any,
) -> None:
    """An op on two operands, the second one a row."""
    zeros = [0 if dtype == "int16" else point + 128 * (dtype == "uint8") for point in (3, -7, 11)]
    x = forms.input(dtype, (4, 40), scales[0], zeros[0])
    row = forms.input(dtype, (1, 40), scales[1], zeros[1])
    scale = () if result == "bool" else scales[2]
    y = forms.tensor(result or dtype, (4, 40), scale, zeros[2])
    forms.op(op, [x, row], y, options, **fields)


def test_sums_and_products_have_the_bits_of_the_reference(tmp_path: Path) -> None:
    forms = Forms()
    for dtype in ALL:
        add(forms, "ADD", dtype, (0.05, 0.03, 0.07), "Add", fused_activation_function=1)
        add(forms, "ADD", dtype, (0.005, 0.03, 0.05), "Add")
        add(forms, "SUB", dtype, (0.05, 0.03, 0.07), "Sub", pot_scale_int16=False)
        add(forms, "MUL", dtype, (0.05, 0.03, 0.3), "Mul")
        add(forms, "MUL", dtype, (0.05, 0.03, 0.0001), "Mul", fused_activation_function=3)
    add(forms, "SQUARED_DIFFERENCE", "int8", (0.05, 0.03, 0.2), "SquaredDifference")
    forms.check(tmp_path)


def test_choices_have_the_bits_of_the_reference(tmp_path: Path) -> None:
    forms = Forms()
    for dtype in ALL:
        for op in ("MAXIMUM", "MINIMUM"):
            add(forms, op, dtype, (0.05, 0.05, 0.05), "MaximumMinimum")
    for dtype in BYTES:
        add(forms, "PRELU", dtype, (0.05, 0.03, 0.04))
        for options in COMPARISONS:
            name = "".join(f"_{c}" if c.isupper() else c for c in options)[1:].upper()
            add(forms, name, dtype, (0.05, 0.03, 0.05), options, "bool")
    forms.check(tmp_path)


def test_scales_that_are_powers_of_two_by_name_are_refused(tmp_path: Path) -> None:
    forms = Forms()
    add(forms, "ADD", "int16", (0.5, 0.25, 0.5), "Add", pot_scale_int16=True)
    with pytest.raises(UnsupportedError, match="powers of two, by pot_scale_int16"):
        forms.run(tmp_path)
