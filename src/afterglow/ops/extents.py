"""Extents of dimensions as data."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from afterglow.graph import Builder, Op, Value, op
from afterglow.ops.rules import require
from afterglow.types import Array, DType, TensorType
from afterglow.types.dtype import i64
from afterglow.types.extent import is_ranged, undecided


@op("extents")
class Extents(Op):
    """Integers that follow from the extents of dimensions, such as a ranged shape, as a tensor."""

    values: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: DType = i64

    def infer(self) -> TensorType:
        """The given shape, which is exact, and element type."""
        require(
            not any(map(is_ranged, self.shape)) and prod(self.shape) == len(self.values),
            f"{len(self.values)} values do not make up shape {self.shape}",
        )
        require(self.dtype.is_integer, f"extents are integers, not {self.dtype}")
        return TensorType(self.dtype, self.shape)

    def evaluate(self) -> Array:
        """The values, which must be numbers by now."""
        if any(map(is_ranged, self.values)):
            raise undecided(f"the value of {self.values}", *self.values)
        return np.array(self.values, self.dtype.numpy).reshape(self.shape)

    def lower(self, b: Builder) -> Value | None:
        """A constant, where the values are numbers."""
        return None if any(map(is_ranged, self.values)) else b.constant(self.evaluate(), "extents")


def integers(b: Builder, values: Sequence[int], shape: Sequence[int], name: str) -> Value:
    """A tensor of i64 that may be ranged extents; if none is, a constant."""
    if not any(map(is_ranged, values)):
        return b.constant(np.array(values, np.int64).reshape(tuple(shape)), name)
    return b.emit(Extents(tuple(values), tuple(shape)))
