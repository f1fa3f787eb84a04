"""Arrays that follow from others, computed when somebody reads them.

A weight of a model's file that an optimisation has changed takes no memory until it is packed, by
whichever thread does that, and none afterwards. All who hold it share it.
"""

from __future__ import annotations

import math
import weakref
from abc import ABC, abstractmethod

import numpy as np

from afterglow.types.array import Array
from afterglow.types.mapped import release_pages

LARGE = 1 << 16
"""Bytes from which on an array is computed later: nobody reads it again and again."""


class LaterArray(ABC):
    """What is known of an array before it is computed."""

    def __init__(self, source: Array) -> None:
        self.source = source
        """An array of the same shape and element type that is in memory or in a file."""
        self._made: weakref.ref[Array] | None = None

    @abstractmethod
    def write_rows(self, made: Array, start: int = 0) -> None:
        """Compute as many rows, from `start` on along the first axis, as `made` has."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape, that of the source."""
        shape: tuple[int, ...] = self.source.shape
        return shape

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Its element type, that of the source."""
        dtype: np.dtype[np.generic] = self.source.dtype
        return dtype

    @property
    def nbytes(self) -> int:
        """The memory that it takes while somebody reads it."""
        return math.prod(self.shape) * self.dtype.itemsize

    def array(self) -> Array:
        """The array itself: that which somebody still holds, or a new one."""
        made = None if self._made is None else self._made()
        if made is None:
            made = np.empty(self.shape, self.dtype)
            self.write_rows(made)
            release_pages(self.source)
            self._made = weakref.ref(made)
        return made


class ScaledArray(LaterArray):
    """An array times factors that stretch to its shape, rounded once."""

    def __init__(self, source: Array, factor: Array) -> None:
        super().__init__(source)
        self.factor = factor

    def write_rows(self, made: Array, start: int = 0) -> None:
        """See `LaterArray`."""
        own = slice(start, start + len(made))
        factor = np.broadcast_to(self.factor, self.shape)
        _scale(self.source[own], factor[own], made)

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


class ReorderedArray(LaterArray):
    """An array in whose axis, cut into factors, those are permuted."""

    def __init__(
        self, source: Array, axis: int, factors: tuple[int, ...], perm: tuple[int, ...]
    ) -> None:
        super().__init__(source)
        self.axis = axis
        self.factors = factors
        self.perm = perm

    def write_rows(self, made: Array, start: int = 0) -> None:
        """See `LaterArray`."""
        if self.axis == 0:
            order = np.arange(self.shape[0]).reshape(self.factors).transpose(self.perm)
            np.take(self.source, order.reshape(-1)[start : start + len(made)], 0, made, "clip")
            return
        before, after = made.shape[: self.axis], made.shape[self.axis + 1 :]
        cut = self.source[start : start + len(made)].reshape(*before, *self.factors, *after)
        behind = range(self.axis + len(self.perm), cut.ndim)
        places = (*range(self.axis), *(self.axis + place for place in self.perm), *behind)
        moved = cut.transpose(places)
        np.copyto(made.reshape(moved.shape), moved)


def scaled(source: Array, factor: Array) -> Array:
    """The product of an array and factors in float64, rounded to the array's element type."""
    product = np.empty(source.shape, source.dtype)
    _scale(source, factor, product)
    return product


def _scale(source: Array, factor: Array, product: Array) -> None:
    with np.errstate(over="ignore"):
        np.multiply(source, factor, out=product, dtype=np.float64, casting="unsafe")


def source_of(content: Array | LaterArray) -> Array:
    """The array that is in memory or in a file in any case."""
    return content.source if isinstance(content, LaterArray) else content


def array_of(content: Array | LaterArray) -> Array:
    """The array that somebody reads."""
    return content.array() if isinstance(content, LaterArray) else content
