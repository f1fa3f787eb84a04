"""Element types as ONNX Runtime writes them: `tensor(float)`."""

from __future__ import annotations

from typing import Any

import numpy as np

from afterglow.onnxruntime.errors import InvalidArgument
from afterglow.types import DType
from afterglow.types.onnx_elements import DTYPE_OF_ONNX, ONNX_NAMES


def element_text(dtype: DType | None) -> str:
    """The name of an element type, which may be untold."""
    return "undefined" if dtype is None else ONNX_NAMES[dtype].lower()


def element_type_of(given: Any) -> DType:
    """The element type that a program gives as a type of NumPy or as ONNX's number."""
    try:
        if isinstance(given, int) and not isinstance(given, bool):
            return DTYPE_OF_ONNX[given]
        return DType.of(np.dtype(given))
    except (KeyError, TypeError):
        raise InvalidArgument(
            f"there is no element type {given!r}",
            help="give a type of NumPy, such as np.float32, or ONNX's number of one",
        ) from None
