"""Pooling, reductions, and what moves, of quantized integers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tflite")
pytest.importorskip("ai_edge_litert")

from tests.frontends.tflite.importers.quantized.forms import Forms

ALL = ("int8", "uint8", "int16")


def add(
    forms: Forms,
    op: str,
    dtype: str,
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    operand: Any = None,
    scale: float = 0.05,
    options: str = "Reducer",
    **fields: Any,
) -> None:
    """An op on an image, with a further operand."""
    zero = 0 if dtype == "int16" else 5
    x = forms.input(dtype, shapes[0], 0.05, zero)
    more = [] if operand is None else [forms.constant(np.array(operand, np.int32))]
    forms.op(op, [x, *more], forms.tensor(dtype, shapes[1], scale, zero), options, **fields)


@pytest.mark.parametrize("dtype", ALL)
def test_pooling_has_the_bits_of_the_reference(dtype: str, tmp_path: Path) -> None:
    forms = Forms()
    steps = {"stride_w": 2, "stride_h": 2, "filter_width": 3, "filter_height": 3}
    shapes = (1, 7, 9, 5), (1, 4, 5, 5)
    add(forms, "AVERAGE_POOL_2D", dtype, shapes, options="Pool2D", **steps)
    bounded = {**steps, "fused_activation_function": 1}
    add(forms, "MAX_POOL_2D", dtype, shapes, options="Pool2D", **bounded)
    whole = {"stride_w": 1, "stride_h": 1, "filter_width": 7, "filter_height": 7, "padding": 1}
    add(forms, "AVERAGE_POOL_2D", dtype, ((1, 7, 7, 5), (1, 1, 1, 5)), options="Pool2D", **whole)
    forms.check(tmp_path)


@pytest.mark.parametrize("dtype", ALL)
def test_reductions_and_moves_have_the_bits_of_the_reference(dtype: str, tmp_path: Path) -> None:
    forms = Forms()
    image = (2, 7, 9, 5)
    add(forms, "MEAN", dtype, (image, (2, 1, 1, 5)), (1, 2), 0.04, keep_dims=True)
    add(forms, "MEAN", dtype, (image, image[:3]), (3,), 0.004)
    if dtype == "uint8":  # of others the reference kernel reads the bytes as u8
        add(forms, "SUM", dtype, (image, (2, 5)), (1, 2), 0.4)
    add(forms, "REDUCE_MAX", dtype, (image, (2, 5)), (1, 2))
    add(forms, "REDUCE_MIN", dtype, (image, (2, 5)), (1, 2))
    add(forms, "PAD", dtype, ((2, 3), (4, 6)), [[1, 1], [2, 1]], options="Pad")
    for flags in ({}, {"align_corners": True}, {"half_pixel_centers": True}):
        shapes = (1, 5, 7, 3), (1, 9, 4, 3)
        add(forms, "RESIZE_BILINEAR", dtype, shapes, (9, 4), options="ResizeBilinear", **flags)
    forms.check(tmp_path)


def test_rows_by_their_lengths_have_the_bits_of_the_reference(tmp_path: Path) -> None:
    forms = Forms()
    rows = np.array([[0, 0, 1], [0, 0, 0], [1, 1, 0], [100, -3, 2]])
    for dtype, point, zero in (("int8", 5, 0), ("uint8", 120, 128)):
        x = forms.input(dtype, rows.shape, 0.05, point)
        forms.feeds[x] = (rows + point).astype(dtype)
        y = forms.tensor(dtype, rows.shape, 1 / 128, zero)
        forms.op("L2_NORMALIZATION", [x], y, "L2Norm")
    forms.check(tmp_path)


def test_bytes_without_sign_are_rescaled_as_they_are_put_together(tmp_path: Path) -> None:
    forms = Forms()
    parts = [forms.input("uint8", (2, 20), scale, 128) for scale in (0.05, 0.03, 0.04)]
    whole = forms.tensor("uint8", (2, 60), 0.04, 128)
    forms.op("CONCATENATION", parts, whole, "Concatenation", axis=1)
    forms.check(tmp_path)
