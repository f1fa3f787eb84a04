"""Arrays to run programs on, and whether two programs agree on them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterglow.graph import Function
from afterglow.types import Array, DType
from afterglow.types.dtype import Kind

LEAST_OF_NARROW = 1e-2
"""The tolerance of floats of 16 bits and fewer, which are rounded after each op or only once."""


def random_inputs(function: Function, seed: int = 0) -> list[Array]:
    """One array an input: normal numbers, small integers."""
    rng = np.random.default_rng(seed)
    arrays: list[Array] = []
    for placeholder in function.inputs:
        type = placeholder.type
        if type.dtype.is_float:
            arrays.append(rng.standard_normal(type.shape).astype(type.dtype.numpy))
        else:
            arrays.append(rng.integers(0, 2, type.shape).astype(type.dtype.numpy))
    return arrays


def assert_close(got: Sequence[Array], want: Sequence[Array], tolerance: float) -> None:
    """Raise AssertionError unless arrays agree: floats within a tolerance, all else exactly."""
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape
        assert g.dtype == w.dtype
        dtype = DType.of(w.dtype)
        if dtype.kind not in (Kind.FLOAT, Kind.COMPLEX):
            np.testing.assert_array_equal(g, w)
            continue
        wide = np.complex128 if dtype.kind is Kind.COMPLEX else np.float64
        limit = tolerance if w.dtype.itemsize >= 4 else max(tolerance, LEAST_OF_NARROW)
        np.testing.assert_allclose(g.astype(wide), w.astype(wide), rtol=limit, atol=limit)


def assert_identical(got: Sequence[Array], want: Sequence[Array]) -> None:
    """Raise AssertionError unless arrays are the same to the bit."""
    assert [(g.shape, g.dtype) for g in got] == [(w.shape, w.dtype) for w in want]
    assert [g.tobytes() for g in got] == [w.tobytes() for w in want]
