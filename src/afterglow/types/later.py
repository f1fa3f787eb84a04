"""Arrays that are products, computed when somebody reads them."""

from __future__ import annotations

import math
import weakref

import numpy as np

from afterglow.types.array import Array
from afterglow.types.mapped import release_pages


class ScaledArray:
    """An array times factors that stretch to its shape, rounded once: nothing is in memory twice.

    A weight of a model's file that an optimisation has scaled takes no memory until it is packed,
    by whichever thread does that, and none afterwards. All who hold the product share it.
    """

    def __init__(self, source: Array, factor: Array) -> None:
        self.source = source
        self.factor = factor
        self._made: weakref.ref[Array] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the product."""
        shape: tuple[int, ...] = self.source.shape
        return shape

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Its element type, that of the array which is scaled."""
        dtype: np.dtype[np.generic] = self.source.dtype
        return dtype

    @property
    def nbytes(self) -> int:
        """The memory that it takes while somebody reads it."""
        return math.prod(self.shape) * self.dtype.itemsize

    def array(self) -> Array:
        """The product itself: that which somebody still holds, or a new one."""
        made = None if self._made is None else self._made()
        if made is None:
            made = scaled(self.source, self.factor)
            release_pages(self.source)
            self._made = weakref.ref(made)
        return made

    @property
    def is_surely_finite(self) -> bool:
        """Whether no product of f32 can be too large, by the largest numbers of both."""
        if not self.source.size:
            return True
        with np.errstate(over="ignore", invalid="ignore"):
            ends = float(self.source.min()), float(self.source.max())
            most = max(map(abs, ends)) * float(np.abs(self.factor).max())
        release_pages(self.source)
        return most < float(np.finfo(np.float32).max)  # false for NaN, too


def scaled(source: Array, factor: Array) -> Array:
    """The product of an array and factors in float64, rounded to the array's element type."""
    product = np.empty(source.shape, source.dtype)
    with np.errstate(over="ignore"):
        np.multiply(source, factor, out=product, dtype=np.float64, casting="unsafe")
    return product


def source_of(content: Array | ScaledArray) -> Array:
    """The array that is in memory or in a file in any case."""
    return content.source if isinstance(content, ScaledArray) else content


def array_of(content: Array | ScaledArray) -> Array:
    """The array that somebody reads."""
    return content.array() if isinstance(content, ScaledArray) else content
