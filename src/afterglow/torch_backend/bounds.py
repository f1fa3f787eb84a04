"""Bounds of the dynamic dimensions of a graph, so that one program serves all their extents."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from afterglow.runtime import Signature

LEAST = 2
"""PyTorch compiles graphs of their own for extents of 0 and 1."""
LEAST_HIGH = 64
"""The least upper bound of a dimension: small extents grow."""

_SYMBOL = re.compile(r"[A-Za-z_]\w*")


class Bounds:
    """The bounds that a program has: those of extents that were seen, with room above."""

    def __init__(self, signature: Signature, arrays: Mapping[str, Any]) -> None:
        self._places = [
            (info.name, axis, extent)
            for info in signature.inputs
            for axis, extent in enumerate(info.shape or ())
            if isinstance(extent, str)
        ]
        self.extents = self._extents(arrays)
        self.high = {name: _room_for(extent) for name, extent in self.extents.items()}

    def _extents(self, arrays: Mapping[str, Any]) -> dict[str, int]:
        """The extents of dimensions that are no expressions, by name."""
        return {
            name: arrays[tensor].shape[axis]
            for tensor, axis, name in self._places
            if name.isidentifier()
        }

    @property
    def dims(self) -> dict[str, Any]:
        """What to compile for: a range for each dimension, expressions for what follows.

        Nothing if some follow from what is no dimension: then there is a program for each shape.
        """
        derived = {name: name for _, _, name in self._places if name not in self.high}
        free = {symbol for text in derived for symbol in _SYMBOL.findall(text)}
        if not free <= self.high.keys():
            return {}
        ranges = {name: (min(LEAST, self.extents[name]), high) for name, high in self.high.items()}
        return {**ranges, **derived}

    def hold(self, arrays: Mapping[str, Any]) -> bool:
        """Whether the extents of arrays are within the bounds."""
        return all(
            arrays[tensor].shape[axis] <= self.high[name]
            for tensor, axis, name in self._places
            if name in self.high
        )


def _room_for(extent: int) -> int:
    """An upper bound of a dimension that has had this extent: a power of two."""
    return max(LEAST_HIGH, 1 << extent.bit_length())
