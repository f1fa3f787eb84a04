"""The page about ops of ONNX has a row for each that there is; how errors are measured."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from benchmarks.onnx_page import PAGE, listed
from benchmarks.onnx_support import all_versions, ulps


def test_the_page_lists_every_op_in_every_version() -> None:
    rewrite = "run: python -m benchmarks.onnx_support --write"
    assert listed(PAGE.read_text(encoding="utf-8")) == all_versions(), rewrite


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_the_next_number_is_one_unit_away(dtype: type) -> None:
    ones = np.ones(3, dtype)
    above = ones + np.array([0, ml_dtypes.finfo(dtype).eps, 0], dtype)
    assert ulps(ones, above) == 1
    assert ulps(ones * 4, above * 4) == 1


def test_integers_differ_by_their_difference() -> None:
    assert ulps(np.array([3, 5]), np.array([3, 7])) == 2


def test_elements_next_to_zero_count_as_a_part_of_the_largest() -> None:
    want = np.array([1, 0], np.float32)
    assert ulps(want, np.array([1, 2**-23], np.float32)) == 256


def test_sequences_and_what_is_not_finite() -> None:
    pair = [np.float32(1), np.array([np.inf, np.nan, 2], np.float32)]
    assert ulps(pair, pair) == 0
    assert ulps(np.array(["a"], object), np.array(["a"], object)) == 0
