"""Caffe2's binary files: nets read from protobuf's wire format, floats where they lie."""

from __future__ import annotations

import struct
from functools import partial
from typing import Any

import numpy as np

from afterglow.frontends.caffe2.looks import NET
from afterglow.frontends.caffe2.messages import SCHEMA, Fields, Floats, Kind, Net, net_of
from afterglow.frontends.protobuf import FIXED32, LENGTH, VARINT, Field, ProtobufReader
from afterglow.support.errors import ModelError
from afterglow.types import Array

_WIRE_TYPES = {Kind.FLOAT: FIXED32, Kind.INT: VARINT}
"""How numbers are written; everything else has a length."""
_LISTS = (".floats", ".ints")
"""Fields whose numbers may be packed."""
_FLOATS_TAG = 5 << 3 | FIXED32
_ROW = 5
"""Bytes of a float that is a field of its own: a tag, and the number."""
_SIGN = 1 << 63


def read_binary_net(data: memoryview) -> Net:
    """The net that is in the bytes of a file."""
    return net_of(NetReader(data).message("NetDef", 0, len(data), "net"))


class NetReader(ProtobufReader):
    """Reads the messages of a net."""

    def __init__(self, data: memoryview) -> None:
        super().__init__(data, NET)

    def message(self, name: str, position: int, end: int, place: str) -> Fields:
        """The fields of a message that the schema has."""
        schema = SCHEMA[name]
        found: Fields = {}
        while position < end:
            if name == "Argument" and self.data[position] == _FLOATS_TAG:
                run = self._run_of_floats(position, end)
                if run.count:
                    found.setdefault("floats", []).append(run)
                    position += run.count * _ROW
                    continue
            field = self.field(position, end, place)
            position = field.end
            known = schema.get(field.number)
            if known is not None:
                key, kind = known
                value = self._value(field, kind, f"{place}.{key}")
                found.setdefault(key, []).extend(value)
        return found

    def _run_of_floats(self, position: int, end: int) -> Floats:
        """Floats that follow each other, each a field of its own: nearly all of a file."""
        most = (end - position) // _ROW
        data = np.frombuffer(self.data, np.uint8, most * _ROW, position).reshape(most, _ROW)
        count, step = 0, 16
        while count < most:  # in growing steps: a file of short runs must not take forever
            others = data[count : count + step, 0] != _FLOATS_TAG
            if others.any():
                count += int(others.argmax())
                break
            count, step = count + len(others), step * 8
        return Floats(count, partial(_floats_of_rows, data[:count]))

    def _value(self, field: Field, kind: Kind | str, place: str) -> list[Any]:
        """What a field holds: several, if it is a packed list of numbers."""
        expected = _WIRE_TYPES.get(kind, LENGTH) if isinstance(kind, Kind) else LENGTH
        packed = place.endswith(_LISTS) and field.wire_type == LENGTH
        if field.wire_type != expected and not packed:
            raise ModelError(
                "the file is not a Caffe2 net: a field is of the wrong type", where=f"in {place}"
            )
        if isinstance(kind, str):
            return [self.message(kind, field.start, field.end, place)]
        if packed:
            return self._packed(field, kind, place)
        contents = self.data[field.start : field.end]
        match kind:
            case Kind.TEXT:
                return [_text(contents, place)]
            case Kind.FLOAT:
                return [struct.unpack("<f", contents)[0]]
            case Kind.INT:
                return [_signed(self.varint(field.start, field.end, place)[0])]
        return [bytes(contents) if kind is Kind.BYTES else contents]

    def _packed(self, field: Field, kind: Kind, place: str) -> list[Any]:
        """Numbers without tags, one after the other."""
        if kind is Kind.FLOAT:
            count, rest = divmod(field.end - field.start, 4)
            if rest:
                raise ModelError("a list of floats ends inside of one", where=f"in {place}")
            read = partial(np.frombuffer, self.data, "<f4", count, field.start)
            return [Floats(count, read)] if count else []
        numbers, position = [], field.start
        while position < field.end:
            number, position = self.varint(position, field.end, place)
            numbers.append(_signed(number))
        return numbers


def _floats_of_rows(rows: Array) -> Array:
    return np.ascontiguousarray(rows[:, 1:]).view("<f4").reshape(-1)


def _text(contents: memoryview, place: str) -> str:
    try:
        return bytes(contents).decode()
    except UnicodeDecodeError:
        what = f"a name in the net is not UTF-8 text: {bytes(contents[:40])!r}"
        raise ModelError(what, where=f"in {place}") from None


def _signed(number: int) -> int:
    """Negative integers are written as if they had 64 bits without a sign."""
    number &= (1 << 64) - 1
    return number - (1 << 64) if number >= _SIGN else number
