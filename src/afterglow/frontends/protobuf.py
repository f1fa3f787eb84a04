"""Protobuf's wire format: the fields of a message, found without copying what they hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from afterglow.support.errors import ModelError

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
"""Wire types: what follows the key of a field."""

_FIXED_BYTES = {FIXED64: 8, FIXED32: 4}


class TruncatedError(ModelError):
    """The data end inside of a field."""


class Field(NamedTuple):
    """A field of a message."""

    number: int
    wire_type: int
    start: int
    """Where the contents begin, after the key and the length."""
    end: int


class ProtobufReader:
    """Finds fields in the data of a file that should be `kind`: `an ONNX model`."""

    def __init__(self, data: memoryview, kind: str) -> None:
        self.data = data
        self.kind = kind

    def fields(self, start: int, end: int, place: str) -> Iterator[Field]:
        """The fields between two positions; `place` is the message that they are in."""
        while start < end:
            field = self.field(start, end, place)
            yield field
            start = field.end

    def field(self, position: int, end: int, place: str) -> Field:
        """The field that begins at `position`."""
        key, start = self.varint(position, end, place)
        number, wire_type = key >> 3, key & 7
        if number == 0 or wire_type not in (VARINT, LENGTH, *_FIXED_BYTES):
            raise ModelError(
                f"the file is not {self.kind}: byte {position:,} does not begin a protobuf field",
                where=f"in {place}",
            )
        if wire_type == VARINT:
            return Field(number, wire_type, start, self.varint(start, end, place)[1])
        length = _FIXED_BYTES.get(wire_type, 0)
        if wire_type == LENGTH:
            length, start = self.varint(start, end, place)
        if start + length > end:
            raise TruncatedError(
                f"the file is truncated: a field at byte {position:,} takes {length:,} bytes, "
                f"{end - start:,} are left",
                where=f"in {place}",
            )
        return Field(number, wire_type, start, start + length)

    def varint(self, position: int, end: int, place: str) -> tuple[int, int]:
        """An integer of seven bits a byte, least first, and where it ends."""
        value = 0
        for shift in range(0, 70, 7):
            if position >= end:
                raise TruncatedError(
                    f"the file is truncated: a number at byte {position:,} does not end",
                    where=f"in {place}",
                )
            byte = self.data[position]
            value |= (byte & 0x7F) << shift
            position += 1
            if byte < 0x80:
                return value, position
        raise ModelError(
            f"the file is not {self.kind}: the number before byte {position:,} is too long",
            where=f"in {place}",
        )
