"""Flatbuffers of unknown origin, read so that nothing in them is believed.

A flatbuffer is made of tables that refer to each other by offsets. The library that reads them
follows any offset; here each one is checked against the bytes that there are. What is read in all
is limited, too: tables may share others, so that a small file could unfold into anything.
"""

from __future__ import annotations

import struct

import numpy as np

from afterglow.support.errors import ModelError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

_U8 = struct.Struct("<B")
_U16 = struct.Struct("<H")
_I32 = struct.Struct("<i")
_U32 = struct.Struct("<I")

MOST_SHARED = 4
"""How many times the bytes of a file may be read in all: tables may share what they refer to."""

_LEAST_READ = 2**17
_MOST_READ = 2**27
"""Of the largest files, nearly everything is elements of tensors, which are not read here."""


class Flatbuffer:
    """The bytes of a file, and how much of them may still be read."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.size = len(data)
        self._left = min(max(_LEAST_READ, MOST_SHARED * self.size), _MOST_READ)

    def root(self) -> Table:
        """The table that the file begins with."""
        return Table(self, self.offset(0, "the file's root"), "the file's root")

    def read(self, kind: struct.Struct, place: int, what: str) -> int | float:
        """A number at a place."""
        if not 0 <= place <= self.size - kind.size:
            raise outside(what, place, self.size)
        number: int | float = kind.unpack_from(self.data, place)[0]
        return number

    def offset(self, place: int, what: str) -> int:
        """Where an offset at a place points to, which must be inside of the file."""
        target = place + int(self.read(_U32, place, what))
        if target >= self.size:
            raise outside(what, target, self.size)
        return target

    def charge(self, count: int) -> None:
        """Note that so many bytes were read."""
        self._left -= count
        if self._left < 0:
            raise ModelError(
                "the file is malformed: its tables refer to the same bytes over and over"
            )

    def vector(self, place: int, itemsize: int, what: str) -> tuple[int, int]:
        """Where a vector's elements begin, and how many there are."""
        start = self.offset(place, what)
        count = int(self.read(_U32, start, what))
        if start + 4 + count * itemsize > self.size:
            raise ModelError(
                f"the file is malformed or truncated: {what} would have {count:,} elements at "
                f"byte {start + 4:,}, the file has {self.size:,} bytes"
            )
        return start + 4, count


@dataclass(frozen=True, eq=False)
class Table:
    """A table at a place; `what` is what errors call it."""

    file: Flatbuffer
    place: int
    what: str

    def __post_init__(self) -> None:
        file, what = self.file, self.what
        vtable = self.place - int(file.read(_I32, self.place, what))
        length = int(file.read(_U16, vtable, what))
        size = int(file.read(_U16, vtable + 2, what))
        if length < 4 or length % 2 or size < 4:
            raise ModelError(f"the file is malformed: {what} is no table")
        if vtable + length > file.size or self.place + size > file.size:
            raise outside(what, max(vtable + length, self.place + size), file.size)
        file.charge(length + size)
        offsets = np.frombuffer(file.data, "<u2", (length - 4) // 2, vtable + 4)
        if offsets.size and int(offsets.max()) >= size:
            raise ModelError(f"the file is malformed: a field of {what} lies outside of it")
        object.__setattr__(self, "_offsets", offsets)

    _offsets: Array = None  # type: ignore[assignment]  # set once the table is checked

    def field(self, slot: int) -> int:
        """Where a field lies; 0 if it is not there."""
        offset = int(self._offsets[slot]) if slot < self._offsets.size else 0
        return offset and self.place + offset

    def u8(self, slot: int, default: int = 0) -> int:
        """An unsigned byte."""
        place = self.field(slot)
        return int(self.file.read(_U8, place, self.what)) if place else default

    def i32(self, slot: int, default: int = 0) -> int:
        """A signed integer."""
        place = self.field(slot)
        return int(self.file.read(_I32, place, self.what)) if place else default

    def u32(self, slot: int, default: int = 0) -> int:
        """An unsigned integer."""
        return self.i32(slot, default) & 0xFFFFFFFF

    def u64(self, slot: int, default: int = 0) -> int:
        """A long unsigned integer."""
        place = self.field(slot)
        if not place:
            return default
        low, high = (int(self.file.read(_U32, place + i, self.what)) for i in (0, 4))
        return low | high << 32

    def numbers(self, slot: int, dtype: str, name: str) -> Array | None:
        """A vector of numbers, as a view of the file; None if it is not there."""
        place = self.field(slot)
        if not place:
            return None
        kind = np.dtype(dtype)
        start, count = self.file.vector(place, kind.itemsize, f"{name} of {self.what}")
        self.file.charge(8 * count)
        return np.frombuffer(self.file.data, kind, count, start)

    def bytes(self, slot: int, name: str) -> memoryview | None:
        """A vector of bytes, as a view of the file; None if it is not there."""
        place = self.field(slot)
        if not place:
            return None
        start, count = self.file.vector(place, 1, f"{name} of {self.what}")
        return self.file.data[start : start + count]

    def text(self, slot: int, name: str) -> str:
        """A text; empty if it is not there. Bytes that are no UTF-8 are replaced."""
        found = self.bytes(slot, name)
        if found is None:
            return ""
        self.file.charge(len(found))
        return bytes(found).decode("utf-8", "replace")

    def table(self, slot: int, name: str) -> Table | None:
        """A table that a field refers to; None if it is not there."""
        place = self.field(slot)
        if not place:
            return None
        what = f"{name} of {self.what}"
        return Table(self.file, self.file.offset(place, what), what)

    def tables(self, slot: int, name: str) -> list[Table]:
        """A vector of tables, called by its name and their number."""
        place = self.field(slot)
        if not place:
            return []
        start, count = self.file.vector(place, 4, f"{name}s of {self.what}")
        self.file.charge(8 * count)
        inside = "" if self.what == "the file's root" else f" of {self.what}"
        names = (f"{name} {index}{inside}" for index in range(count))
        return [
            Table(self.file, self.file.offset(start + 4 * index, what), what)
            for index, what in enumerate(names)
        ]


def outside(what: str, place: int, size: int) -> ModelError:
    """The error for an offset that points out of the file."""
    return ModelError(
        f"the file is malformed or truncated: {what} would be at byte {place:,}, "
        f"the file has {size:,} bytes"
    )
