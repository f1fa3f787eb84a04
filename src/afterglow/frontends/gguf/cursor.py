"""Reading numbers and texts of a GGUF file one after the other; nothing outside of it is read."""

from __future__ import annotations

import struct

import numpy as np

from afterglow.support.errors import ModelError
from afterglow.types import Array

NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 10: "Q", 11: "q", 12: "d"}
"""The types of numbers in metadata, as `struct` calls them."""
BOOL, STRING, ARRAY = 7, 8, 9
"""The other types of values."""


class Cursor:
    """A place in the bytes of a file, which moves on with everything that is read."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.place = 0

    @property
    def left(self) -> int:
        """Bytes behind the place."""
        return len(self.data) - self.place

    def take(self, count: int, what: str) -> memoryview:
        """The next bytes."""
        if count > self.left:
            raise ModelError(
                f"the file ends within {what}: {count:,} bytes are needed at {self.place:,}, "
                f"{self.left:,} are left",
                help="the file was cut off or is damaged: get it again",
            )
        found = self.data[self.place : self.place + count]
        self.place += count
        return found

    def integer(self, kind: str, what: str) -> int:
        """An integer, by the letter that `struct` has for it."""
        return int(struct.unpack("<" + kind, self.take(struct.calcsize(kind), what))[0])

    def count(self, least_bytes: int, what: str) -> int:
        """A number of things of which each takes some bytes at least: as many as may follow."""
        count = self.integer("Q", what)
        if count * least_bytes > self.left:
            raise ModelError(
                f"{what} is {count:,}, and only {self.left:,} bytes follow",
                help="the file was cut off or is damaged: get it again",
            )
        return count

    def text(self, what: str) -> str:
        """A text; bytes that are no UTF-8 become lone surrogates, which stand for them."""
        return bytes(self.take(self.count(1, f"the length of {what}"), what)).decode(
            "utf-8", "surrogateescape"
        )

    def value(self, what: str) -> object:
        """A value of metadata: a number, a truth value, a text, or a list of these."""
        return self._value(self.integer("I", f"the type of {what}"), what)

    def _value(self, kind: int, what: str) -> object:
        if kind == BOOL:
            return bool(self.integer("B", what))
        if kind == STRING:
            return self.text(what)
        if kind == ARRAY:
            return self._array(what)
        if kind not in NUMBERS:
            raise ModelError(f"{what} has the type {kind}, which GGUF does not have")
        letter = NUMBERS[kind]
        return struct.unpack("<" + letter, self.take(struct.calcsize(letter), what))[0]

    def _array(self, what: str) -> Array | list[str]:
        kind = self.integer("I", f"the type of the elements of {what}")
        if kind == STRING:
            count = self.count(8, f"the number of elements of {what}")
            return [self.text(what) for _ in range(count)]
        if kind != BOOL and kind not in NUMBERS:
            raise ModelError(f"{what} has elements of the type {kind}, which are not supported")
        dtype = np.dtype("?" if kind == BOOL else NUMBERS[kind]).newbyteorder("<")
        count = self.count(dtype.itemsize, f"the number of elements of {what}")
        data = self.take(count * dtype.itemsize, what)
        return (
            np.frombuffer(data, np.uint8).astype(bool)
            if kind == BOOL
            else np.frombuffer(data, dtype)
        )
