from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from afterglow.report import agreement
from afterglow.report.agreement import Difference


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_neighbouring_floats_are_one_ulp_apart(dtype: type) -> None:
    x = np.array([1, -2, 0, 3e-5], dtype)
    up = np.nextafter(x, np.array(9, dtype)).astype(dtype)
    assert Difference.of(x, up).ulps == 1
    assert Difference.of(x, x).ulps == 0


def test_zeros_of_both_signs_are_the_same_number() -> None:
    assert Difference.of(np.float32([0.0]), np.float32([-0.0])) == Difference.of(
        np.float32([0.0]), np.float32([0.0])
    )


def test_the_errors_of_large_arrays_are_found_chunk_by_chunk(monkeypatch) -> None:
    monkeypatch.setattr(agreement, "CHUNK", 4)
    expected = np.arange(1, 11, dtype=np.float32)
    actual = expected.copy()
    actual[6] += 5
    found = Difference.of(actual, expected)
    assert (found.absolute, found.scale, found.place) == (5, 10, 6)
    assert found.relative == 0.5
    assert found.l2 == pytest.approx(5 / np.linalg.norm(expected))


def test_non_finite_elements_are_counted_and_located() -> None:
    found = Difference.of(np.float32([1, np.inf, np.nan]), np.float32([1, 2, np.nan]))
    assert math.isinf(found.absolute)
    assert (str(found.actual), found.actual.first) == ("1 NaN, 1 infinite", 1)
    assert (str(found.expected), found.expected.first) == ("1 NaN", 2)


def test_other_shapes_and_element_types_are_named() -> None:
    zeros = np.zeros((2, 3), np.float32)
    assert Difference.of(zeros, zeros.T).mismatch == "shape (2, 3) instead of (3, 2)"
    wide = zeros.astype(np.float64)
    assert Difference.of(zeros, wide).mismatch == "element type float32 instead of float64"


def test_texts_and_truth_values_are_equal_or_not() -> None:
    texts = np.array(["a", "b"], object)
    assert Difference.of(texts, texts).absolute == 0
    assert Difference.of(texts, texts[::-1]).place == 0
    assert math.isinf(Difference.of(np.array([True]), np.array([False])).absolute)
