"""Products that are computed when somebody reads them."""

from __future__ import annotations

import numpy as np

from afterglow.types.scaled import ScaledArray, array_of, scaled, source_of

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
