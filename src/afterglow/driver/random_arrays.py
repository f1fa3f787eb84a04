"""Random arrays for the inputs of a model."""

from __future__ import annotations

import numpy as np

from afterglow.types import Array, DType
from afterglow.types.dtype import Kind

SMALL_INTEGERS = 2
"""Random integers are below this: integers are often indices, and small ones are usually valid."""


def random_array(dtype: DType, shape: tuple[int, ...], random: np.random.Generator) -> Array:
    """Normally distributed floats, small integers, random booleans, or the string "text"."""
    match dtype.kind:
        case Kind.STRING:
            return np.full(shape, "text", object)
        case Kind.INT | Kind.UINT:
            below = min(SMALL_INTEGERS, 2 ** (dtype.bits - 1))
            return random.integers(0, below, shape).astype(dtype.numpy)
        case Kind.BOOL:
            return random.integers(0, 2, shape).astype(np.bool_)
    return random.standard_normal(shape).astype(dtype.numpy)
