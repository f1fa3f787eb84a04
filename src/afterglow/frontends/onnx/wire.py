"""Protobuf's wire format, read just far enough to leave large tensors where they are.

A model file is nested messages, and nearly all of it is the `raw_data` of tensors.
`without_weights` copies everything else, and puts a note in the place of each large `raw_data`:
the tensor becomes one with external data, which lie in the model's own file. What is left is small,
whatever the size of the model, and protobuf parses it; the weights are never copied.
"""

from __future__ import annotations

from typing import NamedTuple

from afterglow.support.errors import ModelError

LARGE_BYTES = 1024
"""Tensors with so many bytes stay in the file."""

OWN_FILE = "\0"
"""The location of external data that lie in the model's own file: no path has this name."""

_MOST_NESTED = 100
_VARINT, _LENGTH = 0, 2
_FIXED_BYTES = {1: 8, 5: 4}

_MESSAGES: dict[str, dict[int, tuple[str, str]]] = {
    "model": {7: ("graph", "graph"), 25: ("functions", "function")},
    "graph": {
        1: ("node", "node"),
        5: ("initializer", "tensor"),
        15: ("sparse_initializer", "sparse tensor"),
    },
    "function": {7: ("node", "node")},
    "node": {5: ("attribute", "attribute")},
    "attribute": {
        5: ("t", "tensor"),
        6: ("g", "graph"),
        10: ("tensors", "tensor"),
        11: ("graphs", "graph"),
        22: ("sparse_tensor", "sparse tensor"),
    },
    "sparse tensor": {1: ("values", "tensor"), 2: ("indices", "tensor")},
    "tensor": {9: ("raw_data", "")},
}
"""Where tensors are: message -> field number -> (field name, message in it)."""


class _Field(NamedTuple):
    number: int
    wire_type: int
    start: int
    """Where the contents begin, after the key and the length."""
    end: int


def without_weights(data: memoryview) -> bytes:
    """The model in `data`, with each large `raw_data` replaced by a note of where it lies."""
    return _Scanner(data).message("model", "model", 0, len(data), 0)


class _Scanner:
    """Walks the messages that may hold tensors."""

    def __init__(self, data: memoryview) -> None:
        self.data = data

    def message(self, kind: str, place: str, start: int, end: int, depth: int) -> bytes:
        """The message between `start` and `end`, less its weights."""
        if depth > _MOST_NESTED:
            raise ModelError(f"messages are nested more than {_MOST_NESTED} deep", where=place)
        pieces: list[bytes | memoryview] = []
        notes: list[bytes] = []
        position = copied = start
        while position < end:
            field = self.field(position, end, place)
            inner = _MESSAGES[kind].get(field.number)
            if inner and field.wire_type == _LENGTH and field.end - field.start >= LARGE_BYTES:
                name, message = inner
                pieces.append(self.data[copied:position])
                if message:
                    pieces.append(self.inner(field, message, f"{place}.{name}", depth))
                else:
                    notes.append(_note(field.start, field.end - field.start))
                copied = field.end
            position = field.end
        # of a field that is there twice the last counts: what the tensor says itself comes first
        return b"".join([*pieces, self.data[copied:end], *notes])

    def inner(self, field: _Field, message: str, place: str, depth: int) -> bytes:
        """A large message within another, less its weights."""
        inner = self.message(message, place, field.start, field.end, depth + 1)
        return _length_delimited(field.number, inner)

    def field(self, position: int, end: int, place: str) -> _Field:
        """The field that begins at `position`."""
        key, start = self.varint(position, end, place)
        number, wire_type = key >> 3, key & 7
        if number == 0 or wire_type not in (_VARINT, _LENGTH, *_FIXED_BYTES):
            raise ModelError(
                f"the file is not an ONNX model: byte {position:,} does not begin a protobuf field",
                where=f"in {place}",
            )
        if wire_type == _VARINT:
            return _Field(number, wire_type, start, self.varint(start, end, place)[1])
        length = _FIXED_BYTES.get(wire_type, 0)
        if wire_type == _LENGTH:
            length, start = self.varint(start, end, place)
        if start + length > end:
            raise ModelError(
                f"the file is truncated: a field at byte {position:,} takes {length:,} bytes, "
                f"{end - start:,} are left",
                where=f"in {place}",
            )
        return _Field(number, wire_type, start, start + length)

    def varint(self, position: int, end: int, place: str) -> tuple[int, int]:
        """An integer of seven bits a byte, least first, and where it ends."""
        value = 0
        for shift in range(0, 70, 7):
            if position >= end:
                raise ModelError(
                    f"the file is truncated: a number at byte {position:,} does not end",
                    where=f"in {place}",
                )
            byte = self.data[position]
            value |= (byte & 0x7F) << shift
            position += 1
            if byte < 0x80:
                return value, position
        raise ModelError(
            f"the file is not an ONNX model: the number before byte {position:,} is too long",
            where=f"in {place}",
        )


def _note(offset: int, length: int) -> bytes:
    """The fields of a tensor whose data lie in the model's own file."""
    entries = {"location": OWN_FILE, "offset": str(offset), "length": str(length)}
    fields = [
        _length_delimited(
            13, _length_delimited(1, key.encode()) + _length_delimited(2, text.encode())
        )
        for key, text in entries.items()
    ]
    return b"".join(fields) + _varint(14 << 3 | _VARINT) + _varint(1)


def _length_delimited(number: int, contents: bytes) -> bytes:
    return _varint(number << 3 | _LENGTH) + _varint(len(contents)) + contents


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
