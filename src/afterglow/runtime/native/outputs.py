"""Arrays for outputs, in memory that is used again once the caller has dropped them."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from math import prod

import numpy as np

from afterglow.types import Array, TensorType
from afterglow.types.extent import Extents

LARGE = 1 << 17
"""Bytes from which it pays: so much often comes from the system, page by page and cleared."""
MOST_SHAPES = 1024
"""Shapes that are remembered for each ranged output."""
MOST_CACHED = 2
"""Arrays whose memory is cached for each output."""


class OutputArrays:
    """Allocates the outputs of a run: small ones anew, large ones in cached memory."""

    def __init__(self, types: Sequence[TensorType]) -> None:
        self._makers = [_maker(type) for type in types]

    def make(self, extents: Extents) -> list[Array]:
        """An array for each output, with anything in it."""
        return [maker.make(extents) for maker in self._makers]


class _Fresh:
    """A new array each time."""

    def __init__(self, type: TensorType) -> None:
        self.type = type
        self.is_ranged = type.is_ranged
        self.dtype = np.dtype(type.dtype.numpy)
        self._shapes: dict[tuple[int, ...], tuple[int, ...]] = {}
        """What its shape is at extents that it had, if it is ranged."""

    def shape(self, extents: Extents) -> tuple[int, ...]:
        """The shape that it has in a run."""
        if not self.is_ranged:
            return self.type.shape
        key = (*extents.values(),)
        known = self._shapes.get(key)
        if known is None:
            if len(self._shapes) >= MOST_SHAPES:
                self._shapes.clear()
            known = self._shapes[key] = self.type.bind(extents).shape
        return known

    def make(self, extents: Extents) -> Array:
        return np.empty(self.shape(extents), self.dtype)


class _Cached(_Fresh):
    """An array in memory that comes back when the array and all views of it are gone."""

    def __init__(self, type: TensorType) -> None:
        super().__init__(type)
        self._free: list[Array] = []

    def make(self, extents: Extents) -> Array:
        try:
            memory = self._free.pop()
        except IndexError:  # asking first would not help: another thread may take the last one
            memory = np.empty(self.type.nbytes, np.uint8)
        # Views refer to the first array that NumPy finds no other array behind: this one.
        array = np.asarray(memory.data)
        weakref.finalize(array, self._give_back, memory).atexit = False
        shape = self.shape(extents)
        return array[: prod(shape) * self.dtype.itemsize].view(self.dtype).reshape(shape)

    def _give_back(self, memory: Array) -> None:
        if len(self._free) < MOST_CACHED:
            self._free.append(memory)


def _maker(type: TensorType) -> _Fresh:
    is_large = type.nbytes >= LARGE and not np.dtype(type.dtype.numpy).hasobject
    return _Cached(type) if is_large else _Fresh(type)
