"""Memory that begins where vectors like it."""

from __future__ import annotations

import numpy as np

from afterglow.runtime.native.convention import ALIGNMENT
from afterglow.types import Array


def empty_bytes(size: int) -> Array:
    """Memory that begins where vectors like it."""
    whole = np.empty(size + ALIGNMENT, np.uint8)
    start = -whole.ctypes.data % ALIGNMENT
    return whole[start : start + size]


def aligned_bytes(data: Array) -> Array:
    """The same bytes, where vectors like them: a copy only if they lie elsewhere."""
    if data.ctypes.data % ALIGNMENT == 0:
        return data
    copy = empty_bytes(data.nbytes)
    copy[:] = data
    return copy
