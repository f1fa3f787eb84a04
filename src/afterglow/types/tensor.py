"""The type of a tensor: element type, shape, and quantization where it has one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType
from afterglow.types.extent import Extents, bind_extent, is_ranged, largest, smallest
from afterglow.types.quantization import Quantization


class ExtentError(ValueError):
    """A shape with negative or too large extents."""


@dataclass(frozen=True, repr=False)
class TensorType:
    """Element type, shape and quantization of a tensor; rank 0 and empty tensors are allowed."""

    dtype: DType
    shape: tuple[int, ...]
    quantization: Quantization | None = None

    def __post_init__(self) -> None:
        if any(extent < 0 for extent in self.shape):
            raise ExtentError(f"a shape has no negative extents, got {self.shape}")
        quantization = self.quantization
        if quantization is None or quantization.axis is None:
            return
        if not 0 <= quantization.axis < self.rank:
            raise ValueError(
                f"quantization axis {quantization.axis} is not an axis of {self.shape}"
            )
        if len(quantization.scales) != self.shape[quantization.axis]:
            raise ValueError("there must be one scale for each index of the quantization axis")

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes that the elements take in memory, one after the other: at most, if it is ranged."""
        return largest(self.size) * self.dtype.itemsize

    @property
    def least_nbytes(self) -> int:
        """The same with the smallest extents."""
        return smallest(self.size) * self.dtype.itemsize

    @property
    def is_ranged(self) -> bool:
        """Whether its shape depends on the extents of dimensions."""
        return any(map(is_ranged, self.shape))

    def bind(self, extents: Extents) -> TensorType:
        """The exact type that it has in a run with these extents."""
        if not self.is_ranged:
            return self
        return replace(self, shape=tuple(bind_extent(n, extents) for n in self.shape))

    def with_shape(self, shape: Sequence[int]) -> TensorType:
        """The same elements in another shape; quantization along an axis is not kept."""
        kept = self.quantization if self.quantization and self.quantization.axis is None else None
        return TensorType(self.dtype, tuple(shape), kept)

    def with_dtype(self, dtype: DType) -> TensorType:
        """The same shape with other elements, not quantized."""
        return TensorType(dtype, self.shape)

    def quantized(self, quantization: Quantization | None) -> TensorType:
        """The same elements, to be read as the real numbers that `quantization` says."""
        return replace(self, quantization=quantization)

    @staticmethod
    def of(array: np.ndarray[Any, Any]) -> TensorType:
        """The type of a NumPy array."""
        return TensorType(DType.of(array.dtype), array.shape)

    def __str__(self) -> str:
        extents = ", ".join(map(str, self.shape))
        suffix = f"; {self.quantization}" if self.quantization else ""
        return f"{self.dtype}[{extents}{suffix}]"

    __repr__ = __str__
