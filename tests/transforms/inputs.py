"""Arrays to run programs on."""

from __future__ import annotations

import numpy as np

from afterglow.graph import Function
from afterglow.types import Array


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
