"""Numbers to try ops on: all of small types, edges of the others, and random ones."""

from __future__ import annotations

import numpy as np

from afterglow.types import Array
from afterglow.types.dtype import DTYPES, DType, Kind, boolean

DTYPES_HELD = [d for d in DTYPES.values() if d.kind not in (Kind.COMPLEX, Kind.STRING)]
"""The element types that a register holds."""

_FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -7.25, 100.25, -129.0, 300.0]
_LARGE = [65504.0, 2.0**31, 2.0**31 - 1, -(2.0**31), 2.0**33 + 5, -1e10, 9.3e18, 1e30, -1e30]
_SPECIAL = [np.inf, -np.inf, np.nan, 1e-10, -1e-30, 1e-40, 88.0, -90.0, -104.0]
_INTEGERS = [0, 1, -1, 2, -2, 3, 7, -7, 8, 31, 33, 64, 65, 100]


def edges(dtype: DType) -> Array:
    """Where an op may go wrong: few enough for all pairs of them."""
    if dtype is boolean:
        return np.array([False, True])
    if dtype.bits < 8:
        return np.arange(1 << dtype.bits, dtype=np.uint8).view(dtype.numpy)
    if dtype.is_integer:
        return _integer_edges(dtype)
    with np.errstate(all="ignore"):
        numbers = np.array(_FLOATS + _LARGE + _SPECIAL + _ends(dtype)).astype(dtype.numpy)
    return np.concatenate([numbers, _odd_codes(dtype)])


def _integer_edges(dtype: DType) -> Array:
    info = np.iinfo(dtype.numpy)
    ends = [int(info.min), int(info.min) + 1, int(info.max) - 1, int(info.max)]
    return np.array([*(n for n in _INTEGERS if n >= info.min), *ends], dtype.numpy)


def _ends(dtype: DType) -> list[float]:
    if dtype.bits < 32:
        return []
    info = np.finfo(dtype.numpy)
    return [float(info.max), -float(info.max), float(info.tiny), float(info.smallest_subnormal)]


def _odd_codes(dtype: DType) -> Array:
    """The ends of the codes of narrow floats: subnormal, largest, NaN and infinite."""
    if dtype.bits >= 32:
        return np.array([], dtype.numpy)
    half = 1 << (dtype.bits - 1)
    codes = np.array([1, half - 1, half - 2, half, half + 1, 2 * half - 1], f"u{dtype.itemsize}")
    return codes.view(dtype.numpy)


def sample(dtype: DType, rng: np.random.Generator, count: int = 200) -> Array:
    """All edges, all of 8 bits, and random numbers of ordinary sizes."""
    if dtype is boolean:
        return rng.random(count) < 0.5
    if dtype.bits <= 8:
        return np.arange(1 << dtype.bits, dtype=np.uint8).view(dtype.numpy)
    if dtype.is_float:
        near = np.concatenate([rng.normal(0, scale, count) for scale in (0.01, 1, 10, 100)])
        return np.concatenate([edges(dtype), near.astype(dtype.numpy)])
    codes = rng.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype.numpy)
    return np.concatenate([edges(dtype), codes])


def pairs(dtype: DType, rng: np.random.Generator, count: int = 200) -> tuple[Array, Array]:
    """All pairs of edges, and random ones."""
    left, right = (grid.reshape(-1) for grid in np.meshgrid(edges(dtype), edges(dtype)))
    more = [rng.choice(sample(dtype, rng), count) for _ in range(2)]
    return np.concatenate([left, more[0]]), np.concatenate([right, more[1]])
