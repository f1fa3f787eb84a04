"""Protobuf's wire format, read just far enough to leave large tensors where they are.

A model file is nested messages, and nearly all of it is the `raw_data` of tensors.
`without_weights` copies everything else, and puts a note in the place of each large `raw_data`:
the tensor becomes one with external data, which lie in the model's own file. What is left is small,
whatever the size of the model, and protobuf parses it; the weights are never copied.
"""

from __future__ import annotations

from afterglow.frontends.protobuf import LENGTH, VARINT, Field, ProtobufReader
from afterglow.support.errors import ModelError

LARGE_BYTES = 1024
"""Tensors with so many bytes stay in the file."""

OWN_FILE = "\0"
"""The location of external data that lie in the model's own file: no path has this name."""

_MOST_NESTED = 100

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


def without_weights(data: memoryview) -> bytes:
    """The model in `data`, with each large `raw_data` replaced by a note of where it lies."""
    return _Scanner(data, "an ONNX model").message("model", "model", 0, len(data), 0)


class _Scanner(ProtobufReader):
    """Walks the messages that may hold tensors."""

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
            if inner and field.wire_type == LENGTH and field.end - field.start >= LARGE_BYTES:
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

    def inner(self, field: Field, message: str, place: str, depth: int) -> bytes:
        """A large message within another, less its weights."""
        inner = self.message(message, place, field.start, field.end, depth + 1)
        return _length_delimited(field.number, inner)


def _note(offset: int, length: int) -> bytes:
    """The fields of a tensor whose data lie in the model's own file."""
    entries = {"location": OWN_FILE, "offset": str(offset), "length": str(length)}
    fields = [
        _length_delimited(
            13, _length_delimited(1, key.encode()) + _length_delimited(2, text.encode())
        )
        for key, text in entries.items()
    ]
    return b"".join(fields) + _varint(14 << 3 | VARINT) + _varint(1)


def _length_delimited(number: int, contents: bytes) -> bytes:
    return _varint(number << 3 | LENGTH) + _varint(len(contents)) + contents


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
