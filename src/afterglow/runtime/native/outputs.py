"""Arrays for outputs, in memory that is used again once the caller has dropped them."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from afterglow.types import Array

LARGE = 1 << 17
"""Bytes from which it pays: so much often comes from the system, page by page and cleared."""
MOST_CACHED = 2
"""Arrays whose memory is cached for each output."""


class OutputArrays:
    """Allocates the outputs of a run: small ones anew, large ones in cached memory."""

    def __init__(self, types: Sequence[tuple[tuple[int, ...], Any]]) -> None:
        self._makers = [_maker(shape, np.dtype(dtype)) for shape, dtype in types]

    def make(self) -> list[Array]:
        """An array for each output, with anything in it."""
        return [maker.make() for maker in self._makers]


class _Fresh:
    """A new array each time."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape = shape
        self.dtype = dtype

    def make(self) -> Array:
        return np.empty(self.shape, self.dtype)


class _Cached(_Fresh):
    """An array in memory that comes back when the array and all views of it are gone."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        super().__init__(shape, dtype)
        self._free: list[Array] = []

    def make(self) -> Array:
        try:
            memory = self._free.pop()
        except IndexError:  # asking first would not help: another thread may take the last one
            memory = np.empty(self.shape, self.dtype)
        # Views refer to the first array that NumPy finds no other array behind: this one.
        array = np.asarray(memory.reshape(-1).view(np.uint8).data)
        weakref.finalize(array, self._give_back, memory).atexit = False
        return array.view(self.dtype).reshape(self.shape)

    def _give_back(self, memory: Array) -> None:
        if len(self._free) < MOST_CACHED:
            self._free.append(memory)


def _maker(shape: tuple[int, ...], dtype: np.dtype[Any]) -> _Fresh:
    is_large = dtype.itemsize * int(np.prod(shape)) >= LARGE and not dtype.hasobject
    return _Cached(shape, dtype) if is_large else _Fresh(shape, dtype)
