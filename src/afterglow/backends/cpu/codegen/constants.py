"""The constants of a compiled program: weights as they are, weights packed, tables of kernels."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np

from afterglow.backends.cpu.micro.kernel import Packed, Table
from afterglow.instr import Buffer
from afterglow.runtime.native.convention import ALIGNMENT
from afterglow.runtime.native.memory import empty_bytes
from afterglow.types import Array

GROWTH = 2
"""How many times as large the room becomes when constants do not fit in it."""


class Constants:
    """A block of constants under construction, in which each constant is stored once.

    Each is written where it belongs at once, so that little is in memory twice.
    """

    def __init__(self) -> None:
        self.size = 0
        self._offsets: dict[Hashable, int] = {}
        self._packed: dict[Hashable, list[slice]] = {}
        """Where a constant lies packed, in each way that it is."""
        self._room = empty_bytes(0)
        """Memory for the block, and for what may follow."""

    def expect(self, nbytes: int) -> None:
        """Make room for so many bytes in all, which nothing is written to until it is needed."""
        if nbytes > self._room.nbytes:
            room = empty_bytes(nbytes)
            room[: self.size] = self._room[: self.size]
            self._room = room

    def raw(self, buffer: Buffer) -> int:
        """Where a whole constant lies, without gaps."""
        return self._place(id(buffer.data), lambda: elements_of(buffer))

    def packed(self, buffer: Buffer, packed: Packed) -> int:
        """The offset of a constant, packed for a kernel; kernels that pack it alike share it."""
        constant = (id(buffer.root.data), buffer.start, buffer.strides)
        key = (*constant, packed)
        if key not in self._offsets:
            data = bytes_of(packed.pack(elements_of(buffer)))
            others = self._packed.setdefault(constant, [])
            found = next((place for place in others if self._holds(place, data)), None)
            if found is None:
                found = slice(self._append(data), self.size)
                others.append(found)
            self._offsets[key] = found.start
        return self._offsets[key]

    def _holds(self, place: slice, data: Array) -> bool:
        """Whether some bytes, and zeros behind them, are at a place of the block."""
        there = self._room[place]
        return _padded(data.nbytes) == there.nbytes and np.array_equal(there[: data.nbytes], data)

    def table(self, table: Table) -> int:
        """Where a kernel's own numbers lie."""
        return self._place(table, lambda: table.data)

    def block(self) -> Array:
        """All of them, as bytes; afterwards they are nowhere else."""
        whole, self._room = self._room[: self.size], empty_bytes(0)
        return whole

    def _place(self, key: Hashable, make: Callable[[], Array]) -> int:
        if key not in self._offsets:
            self._offsets[key] = self._append(bytes_of(make()))
        return self._offsets[key]

    def _append(self, data: Array) -> int:
        """Write bytes behind what is there, and zeros up to where the next may begin."""
        start, end = self.size, self.size + data.nbytes
        padded = start + _padded(data.nbytes)
        if padded > self._room.nbytes:
            self.expect(max(padded, GROWTH * self._room.nbytes))
        self._room[start:end] = data
        self._room[end:padded] = 0
        self.size = padded
        return start


def _padded(nbytes: int) -> int:
    """The bytes that a constant takes in the block."""
    return -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT


def bytes_of(data: Array) -> Array:
    """The bytes of an array, in order."""
    return np.ascontiguousarray(data).reshape(-1).view(np.uint8)


def elements_of(buffer: Buffer) -> Array:
    """The elements of a constant buffer, or of a view of one."""
    root = buffer.root
    assert root.data is not None
    if not buffer.is_view:
        return root.data.reshape(root.type.shape)
    flat = np.ascontiguousarray(root.data).reshape(-1)
    return buffer.of(flat.view(buffer.type.dtype.numpy))
