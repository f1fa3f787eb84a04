"""Arrays to time programs on, whose values do not matter."""

from __future__ import annotations

import numpy as np

from afterglow.instr import Program
from afterglow.types import Array, TensorType
from afterglow.types.dtype import string

SAMPLES = 1 << 16
"""Elements that differ in an array; they are repeated in larger ones."""


def sample_inputs(program: Program) -> list[Array]:
    """An array for each input of a program."""
    return [sample_array(buffer.type) for buffer in program.inputs]


def sample_array(type: TensorType) -> Array:
    """Some elements: floats from 0 to 1, and 0 or 1 of integers, since those may be places."""
    if type.dtype is string:
        return np.full(type.shape, "text", object)
    random, size = np.random.default_rng(0), min(type.size, SAMPLES)
    few = random.random(size) if type.dtype.is_float else random.integers(0, 2, size)
    return np.resize(few.astype(type.dtype.numpy), type.shape)
