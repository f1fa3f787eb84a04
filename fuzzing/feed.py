"""Inputs for a compiled model: small arrays of the types that it asks for."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np

from afterglow.runtime import CompiledModel
from afterglow.runtime.signature import TensorInfo
from afterglow.types.dtype import DType, Kind

MOST_ELEMENTS = 1 << 20
HOSTILE = [-(2**63), -(2**31), -100, -1, 0, 1, 2, 1000, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1]


def feed_for(model: CompiledModel, rng: random.Random) -> dict[str, Any] | None:
    """Random inputs for a model; None if they would be large, or are no tensors."""
    feed = {}
    extents: dict[str, int] = {}
    for info in model.inputs:
        shape = _shape(info, rng, extents)
        if shape is None or info.dtype is None:
            return None
        feed[info.name] = random_array(info.dtype, shape, rng)
    return feed


def _shape(info: TensorInfo, rng: random.Random, extents: dict[str, int]) -> tuple[int, ...] | None:
    if info.shape is None:
        return None
    shape = tuple(
        extent if isinstance(extent, int) else extents.setdefault(str(extent), rng.randint(1, 3))
        for extent in info.shape
    )
    # with a zero among them, other extents may be larger than NumPy allows
    size = math.prod(max(extent, 1) for extent in shape)
    return shape if size <= MOST_ELEMENTS else None


def random_array(dtype: DType, shape: tuple[int, ...], rng: random.Random) -> Any:
    """Small numbers, mostly; sometimes, if they are integers, very large and very small ones."""
    source = np.random.default_rng(rng.getrandbits(32))
    match dtype.kind:
        case Kind.BOOL:
            return source.random(shape) < 0.5
        case Kind.STRING:
            return source.choice(["a", "b", "longer", ""], shape).astype(object)
        case Kind.INT | Kind.UINT:
            numbers = source.integers(0, 3, shape)
            if rng.random() < 0.25:
                numbers = source.choice(np.array(HOSTILE, np.int64), shape)
            with np.errstate(all="ignore"):
                return np.asarray(numbers).astype(dtype.numpy)
    return source.normal(size=shape).astype(dtype.numpy)
