"""One number everywhere."""

from __future__ import annotations

import numpy as np

from afterglow.graph import Op, op
from afterglow.ops.rules import require
from afterglow.types import Array, DType, TensorType
from afterglow.types.dtype import string


@op("fill")
class Fill(Op):
    """A tensor with all elements equal to one number."""

    shape: tuple[int, ...]
    value: float
    dtype: DType

    def infer(self) -> TensorType:
        """The given shape and element type."""
        require(self.dtype is not string, "a number does not fill strings")
        return TensorType(self.dtype, self.shape)

    def evaluate(self) -> Array:
        """NumPy's full."""
        return np.full(self.shape, self.value, self.dtype.numpy)
