"""The options of custom ops, if they are what most are: a FlexBuffers map of numbers and texts.

FlexBuffers is described at https://flatbuffers.dev/flatbuffers_internals/: every value lies before
what refers to it, the root at the end, and a byte for each says its kind and its width.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from afterglow.frontends.definition.model import AttributeDef, AttributeKind

_INT, _UINT, _FLOAT, _STRING, _MAP, _VECTOR, _BOOL = 1, 2, 3, 5, 9, 10, 26
_INDIRECT = {6: _INT, 7: _UINT, 8: _FLOAT}
_VECTORS = {11: _INT, 12: _UINT, 13: _FLOAT, 36: _BOOL}
_FIXED = {16: (_INT, 2), 17: (_UINT, 2), 18: (_FLOAT, 2), 19: (_INT, 3), 20: (_UINT, 3)}
_FIXED |= {21: (_FLOAT, 3), 22: (_INT, 4), 23: (_UINT, 4), 24: (_FLOAT, 4)}
_FORMATS = {_INT: "bhiq", _UINT: "BHIQ", _BOOL: "BHIQ", _FLOAT: " efd"}
_MOST_ENTRIES = 1 << 10


def custom_attributes(data: bytes) -> dict[str, AttributeDef]:
    """The entries of a map that are numbers, texts or lists of numbers; none if it is no map."""
    try:
        return dict(_Reader(data).attributes())
    except (ValueError, struct.error, LookupError, UnicodeDecodeError):
        return {}


class _Reader:
    """Reads a buffer in which offsets may be anything: all of them are checked."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def attributes(self) -> Iterator[tuple[str, AttributeDef]]:
        if len(self.data) < 3:
            return
        packed, width = self.data[-2], self.data[-1]
        if packed >> 2 != _MAP or width not in (1, 2, 4, 8):
            return
        start = self._target(len(self.data) - 2 - width, width)
        for name, place, kind, size in self._entries(start, 1 << (packed & 3)):
            value = self._value(place, kind, size)
            if value is not None and name.isidentifier():
                yield name, value

    def _entries(self, start: int, width: int) -> Iterator[tuple[str, int, int, int]]:
        """The name, the place, the packed kind and the width of each entry of a map."""
        count = self._number(start - width, width)
        if count > _MOST_ENTRIES:
            raise ValueError("too many entries")
        keys = self._target(start - 3 * width, width)
        key_width = self._number(start - 2 * width, width)
        for number in range(count):
            key = self._target(keys + number * key_width, key_width)
            end = self.data.index(0, key)
            kind = self._number(start + count * width + number, 1)
            yield self.data[key:end].decode(), start + number * width, kind, width

    def _value(self, place: int, packed: int, width: int) -> AttributeDef | None:
        kind, own = packed >> 2, 1 << (packed & 3)
        if kind in _FORMATS:
            return _scalar(self._scalar(place, kind, width))
        if kind in _INDIRECT:
            return _scalar(self._scalar(self._target(place, width), _INDIRECT[kind], own))
        if kind not in (_STRING, _VECTOR, *_VECTORS, *_FIXED):
            return None
        start = self._target(place, width)
        if kind in _FIXED:
            element, count = _FIXED[kind]
            return self._list(start, element, count, own)
        count = self._number(start - own, own)
        if kind == _VECTOR:
            return self._mixed(start, count, own)
        if kind == _STRING:
            text = self._bytes(start, count).decode()
            return AttributeDef(AttributeKind.STRING, text)
        return self._list(start, _VECTORS[kind], count, own)

    def _mixed(self, start: int, count: int, width: int) -> AttributeDef | None:
        """A list whose elements say their kinds behind it, if all are numbers."""
        kinds = self._bytes(start + count * width, count)
        places = (start + number * width for number in range(count))
        if any(kind >> 2 not in _FORMATS for kind in kinds):
            return None
        pairs = zip(places, kinds, strict=True)
        values = tuple(self._scalar(place, kind >> 2, width) for place, kind in pairs)
        floats = any(kind >> 2 == _FLOAT for kind in kinds)
        return AttributeDef(AttributeKind.FLOATS if floats else AttributeKind.INTS, values)

    def _list(self, start: int, kind: int, count: int, width: int) -> AttributeDef:
        self._bytes(start, count * width)
        values = tuple(self._scalar(start + i * width, kind, width) for i in range(count))
        floats = kind == _FLOAT
        return AttributeDef(AttributeKind.FLOATS if floats else AttributeKind.INTS, values)

    def _scalar(self, place: int, kind: int, width: int) -> Any:
        letter = _FORMATS[kind][width.bit_length() - 1]
        return struct.unpack(f"<{letter}", self._bytes(place, width))[0]

    def _number(self, place: int, width: int) -> int:
        return int.from_bytes(self._bytes(place, width), "little")

    def _target(self, place: int, width: int) -> int:
        """Where the offset at a place points to: backwards."""
        return place - self._number(place, width)

    def _bytes(self, start: int, count: int) -> bytes:
        if start < 0 or count < 0 or start + count > len(self.data):
            raise ValueError("outside of the buffer")
        return self.data[start : start + count]


def _scalar(number: float) -> AttributeDef:
    is_float = isinstance(number, float)
    return AttributeDef(AttributeKind.FLOAT if is_float else AttributeKind.INT, number)
