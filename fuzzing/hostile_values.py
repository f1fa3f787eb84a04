"""Arrays of numbers that kernels get wrong."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from afterglow.types.dtype import DType, Kind

FLOATS = [
    *(np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e-38, 1e-8, 3.4e38, -3.4e38),
    *(1e300, 65504.0, 1e5, 2.0**31, 2.0**63, -(2.0**63), 88.8, -104.0, 1e4, 7.0, -7.0, 1e9),
]
INTEGERS = [
    *(-(2**63), -(2**62), -(2**31), -(2**31) - 1, -65537, -1000, -129, -128, -100, -10, -3, -2, -1),
    *(
        0,
        1,
        2,
        3,
        4,
        5,
        7,
        10,
        100,
        127,
        128,
        255,
        256,
        1000,
        65535,
        65536,
        2**30,
        2**31 - 1,
        2**31,
    ),
    *(2**32 - 1, 2**32, 2**40, 2**62, 2**63 - 1),
]
STRINGS = [
    "",
    "a",
    "longer",
    "Ω≈ç",
    "\0",
    "x" * 1000,
    "1e999",
    "nan",
    "-0",
    "  ",
    "\ud7ff",
    "12345",
]


def hostile_array(dtype: DType, shape: tuple[int, ...], rng: random.Random) -> Any:
    """An array of one odd value, of many, or of usual ones with a few odd ones among them."""
    source = np.random.default_rng(rng.getrandbits(32))
    if dtype.kind is Kind.BOOL:
        return source.random(shape) < rng.choice([0.0, 0.5, 1.0])
    if dtype.kind is Kind.STRING:
        return source.choice(np.array(STRINGS, dtype=object), shape)
    odd = _odd(dtype, shape, source, rng)
    usual = source.integers(-3, 4, shape) if dtype.is_integer else source.normal(size=shape)
    share = rng.choice([0.05, 0.3, 1.0])
    with np.errstate(all="ignore"):
        mixed = np.where(source.random(shape) < share, odd, usual.astype(odd.dtype))
        return np.asarray(mixed).astype(dtype.numpy)


def _odd(dtype: DType, shape: tuple[int, ...], source: np.random.Generator, rng: Any) -> Any:
    values = np.array(INTEGERS, np.int64) if dtype.is_integer else np.array(FLOATS, np.float64)
    if rng.random() < 0.4:
        return np.full(shape, rng.choice(list(values)))
    return source.choice(values, shape)
