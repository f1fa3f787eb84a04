"""Ops of com.microsoft on weights of a few bits, and ops that the standard has too."""

from __future__ import annotations

from functools import partial

import ml_dtypes
import numpy as np
import pytest

from afterglow.types import Array
from tests.frontends.onnx.against_runtime import MICROSOFT, check_node

check = partial(check_node, domain=MICROSOFT)
rng = np.random.default_rng(9)


def floats(*shape: int) -> Array:
    return rng.uniform(-2, 2, shape).astype(np.float32)


def bytes_(*shape: int) -> Array:
    return rng.integers(0, 256, shape).astype(np.uint8)


def test_products_with_zero_points_that_are_floats() -> None:
    given = floats(2, 64), bytes_(5, 2, 16), floats(10), floats(5, 2)
    sizes = {"K": 64, "N": 5, "bits": 4, "block_size": 32}
    check("MatMulNBits", *given, constants=(1, 2, 3), tolerance=1e-2, **sizes)


def test_products_whose_columns_are_grouped() -> None:
    groups = rng.permutation(np.repeat(np.arange(2), 32)).astype(np.int32)
    given = floats(2, 64), bytes_(5, 2, 16), floats(10), None, groups
    sizes = {"K": 64, "N": 5, "bits": 4, "block_size": 32}
    check("MatMulNBits", *given, constants=(1, 2, 4), tolerance=1e-2, **sizes)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("bits", [4, 8])
def test_rows_of_a_table_in_blocks(bits: int, zeros: bool) -> None:
    table, places = bytes_(10, 64 * bits // 8), rng.integers(0, 10, (2, 3))
    points = bytes_(10, 4 * bits // 8) if zeros else None
    given = (table, places, floats(10, 4), points)
    sizes = {"bits": bits, "block_size": 16, "constants": (0, 2, 3) if zeros else (0, 2)}
    check("GatherBlockQuantized", *given, **sizes)


def test_rows_of_a_table_of_four_bits() -> None:
    table = rng.integers(-8, 8, (10, 32)).astype(ml_dtypes.int4)
    places = rng.integers(0, 10, (4,))
    given = (table, places, floats(10, 2))
    check("GatherBlockQuantized", *given, constants=(0, 2), block_size=16)


@pytest.mark.parametrize("kind", [0, 1])
def test_products_with_numbers_that_bits_choose(kind: int) -> None:
    given = floats(3, 32), bytes_(5 * 32 // 2), np.abs(floats(5 * 32 // 16))
    sizes = {"K": 32, "N": 5, "block_size": 16, "quant_type": kind}
    check("MatMulBnb4", *given, constants=(1, 2), tolerance=1e-4, **sizes)


def test_ops_of_the_standard() -> None:
    x = floats(2, 5, 5)
    check("Trilu", x, upper=1)
    check("Trilu", x, np.array(1, np.int64), constants=(1,), upper=0)
    check("GatherND", floats(4, 3), np.array([[0, 1], [3, 2]]))
    check("ExpandDims", floats(2, 3), np.array(-1, np.int32), constants=(1,))
    counts = np.array([1, 0, 2, 1])
    check("Pad", floats(2, 3), counts, np.array([7], np.float32), constants=(1,))
    check("Range", np.array(2, np.int64), np.array(9, np.int64), constants=(0, 1))
    grid = rng.uniform(-1, 1, (1, 4, 4, 2)).astype(np.float32)
    check("GridSample", floats(1, 2, 5, 5), grid, align_corners=1)


def test_unique_elements_in_their_order() -> None:
    x = np.array([3, 1, 3, 2, 1, 1], np.float32)
    check("Unique", x, outputs=3, constants=(0,))


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_distances(metric: str) -> None:
    check("CDist", floats(4, 3), floats(5, 3), metric=metric, tolerance=1e-4)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 9])
def test_inverses(size: int) -> None:
    check("Inverse", floats(3, 2, size, size), tolerance=2e-3)
    rows = np.eye(size, dtype=np.float32)[::-1].copy()  # whose first pivots are 0
    check("Inverse", rows)


def test_largest_of_windows_with_channels_last() -> None:
    x = rng.integers(-128, 128, (1, 6, 6, 3)).astype(np.int8)
    check("NhwcMaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
