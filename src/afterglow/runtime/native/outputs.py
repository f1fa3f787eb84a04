"""Arrays for outputs, in memory that is used again once the caller has dropped them."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from afterglow.types import Array, TensorType
from afterglow.types.extent import Extents

LARGE = 1 << 17
"""Bytes from which it pays: so much often comes from the system, page by page and cleared."""
MOST_SHAPES = 1024
"""Extents at which the shapes of ranged outputs are remembered."""
MOST_CACHED = 2
"""Arrays whose memory is cached for each output."""

_NONE: Mapping[int, Array] = {}


class OutputArrays:
    """Allocates the outputs of a run: small ones anew, large ones in cached memory."""

    def __init__(self, types: Sequence[TensorType]) -> None:
        self._types = types
        self._dtypes = [np.dtype(type.dtype.numpy) for type in types]
        self._cached = {place: _Cached(t) for place, t in enumerate(types) if _is_large(t)}
        """What makes the large ones, by their places."""
        self._is_ranged = any(type.is_ranged for type in types)
        self._recent: tuple[Extents, Sequence[tuple[int, ...]]] = ({}, [t.shape for t in types])
        """The extents that came last, and the shapes at them; of exact outputs just the shapes."""
        self._shapes: dict[tuple[int, ...], Sequence[tuple[int, ...]]] = {}
        """The shapes of ranged outputs at extents that they had."""

    def make(self, extents: Extents, targets: Mapping[int, Array] = _NONE) -> list[Array]:
        """An array for each output, with anything in it: a new one where `targets` has none."""
        recent, shapes = self._recent
        if self._is_ranged and recent is not extents:
            shapes = self._shapes_at(extents)
            self._recent = extents, shapes
        if not self._cached and not targets:
            return [*map(np.empty, shapes, self._dtypes)]
        return [
            targets[place] if place in targets else self._make(place, shape)
            for place, shape in enumerate(shapes)
        ]

    def _make(self, place: int, shape: tuple[int, ...]) -> Array:
        cached = self._cached.get(place)
        return np.empty(shape, self._dtypes[place]) if cached is None else cached.make(shape)

    def _shapes_at(self, extents: Extents) -> Sequence[tuple[int, ...]]:
        key = (*extents.values(),)
        known = self._shapes.get(key)
        if known is None:
            if len(self._shapes) >= MOST_SHAPES:
                self._shapes.clear()
            known = self._shapes[key] = [type.bind(extents).shape for type in self._types]
        return known


class _Cached:
    """Makes arrays in memory that comes back when an array and all views of it are gone."""

    def __init__(self, type: TensorType) -> None:
        self.dtype = np.dtype(type.dtype.numpy)
        self._most = type.nbytes
        self._free: list[Array] = []

    def make(self, shape: tuple[int, ...]) -> Array:
        """An array of a shape, with anything in it."""
        try:
            memory = self._free.pop()
        except IndexError:  # asking first would not help: another thread may take the last one
            memory = np.empty(self._most, np.uint8)
        # Views refer to the first array that NumPy finds no other array behind: this one.
        array = np.asarray(memory.data)
        weakref.finalize(array, self._give_back, memory).atexit = False
        return array[: prod(shape) * self.dtype.itemsize].view(self.dtype).reshape(shape)

    def _give_back(self, memory: Array) -> None:
        if len(self._free) < MOST_CACHED:
            self._free.append(memory)


def _is_large(type: TensorType) -> bool:
    return type.nbytes >= LARGE and not np.dtype(type.dtype.numpy).hasobject
