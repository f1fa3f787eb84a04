"""PyTorch's element types, by their names there, as ours."""

from __future__ import annotations

from typing import Any

from afterglow.support.errors import UnsupportedError
from afterglow.types import DType
from afterglow.types.dtype import DTYPES

_ELEMENTS = {dtype.numpy_name: dtype for dtype in DTYPES.values()}
"""By what comes after `torch.` in the name of a type, which is what NumPy calls it."""


def element_type(dtype: Any) -> DType:
    """Our element type for a `torch.dtype`."""
    found = _ELEMENTS.get(str(dtype).removeprefix("torch."))
    if found is None:
        raise UnsupportedError(f"unsupported element type {dtype}")
    return found
