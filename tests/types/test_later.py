"""Arrays that are computed when somebody reads them."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.types.later import (
    LaterArray,
    ReorderedArray,
    ScaledArray,
    array_of,
    scaled,
    source_of,
)

X = np.arange(6, dtype=np.float32).reshape(2, 3)
ROWS = np.array([[0.1], [3.0]])


def test_a_product_is_rounded_once() -> None:
    exact = X.astype(np.float64) * ROWS
    assert np.array_equal(ScaledArray(X, ROWS).array(), exact.astype(np.float32))
    assert scaled(X, ROWS).dtype == np.float32


def test_who_holds_a_product_shares_it() -> None:
    product = ScaledArray(X, ROWS)
    held = product.array()
    assert product.array() is held
    assert array_of(product) is held
    assert array_of(X) is X


def test_it_says_what_it_is_without_being_made() -> None:
    product = ScaledArray(X, ROWS)
    assert (product.shape, product.nbytes) == ((2, 3), 24)
    assert product.dtype == np.dtype(np.float32)
    assert source_of(product) is X
    assert product._made is None


def test_a_product_that_may_be_too_large_is_not_surely_finite() -> None:
    assert ScaledArray(X, ROWS).is_surely_finite
    assert not ScaledArray(X, np.array(1e38)).is_surely_finite
    assert not ScaledArray(X, np.array(np.nan)).is_surely_finite
    assert not ScaledArray(np.full(3, np.inf, np.float32), np.array(1.0)).is_surely_finite
    assert ScaledArray(np.zeros((0, 3), np.float32), np.array(1e38)).is_surely_finite


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_factors_of_an_axis_are_permuted(axis: int) -> None:
    shape = [2, 3, 4]
    shape[axis] = 6
    data = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    order = np.arange(6).reshape(3, 2).T.reshape(-1)
    later = ReorderedArray(data, axis, (3, 2), (1, 0))
    assert np.array_equal(later.array(), data.take(order, axis))


LATER = [
    ScaledArray(X, ROWS),
    ReorderedArray(X, 0, (2, 1), (1, 0)),
    ReorderedArray(X, 1, (1, 3), (1, 0)),
]


@pytest.mark.parametrize("later", LATER)
def test_rows_are_computed_one_by_one(later: LaterArray) -> None:
    row = np.empty((1, 3), np.float32)
    for number, expected in enumerate(later.array()):
        later.write_rows(row, number)
        assert np.array_equal(row[0], expected)
