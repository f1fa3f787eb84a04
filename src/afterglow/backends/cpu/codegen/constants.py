"""The constants of a compiled program: weights as they are, weights packed, tables of kernels."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np

from afterglow.backends.cpu.micro.kernel import Packed, Table
from afterglow.backends.cpu.micro.packing import Packing
from afterglow.instr import Buffer
from afterglow.runtime.native.convention import ALIGNMENT
from afterglow.runtime.native.memory import empty_bytes
from afterglow.types import Array
from afterglow.types.later import LaterArray
from afterglow.types.mapped import release_pages

Write: TypeAlias = Callable[[], None]
"""Writes a constant to its place in the block."""

GROWTH = 2
"""How many times as large the room becomes when constants do not fit in it."""

MADE_BYTES = 1 << 22
"""About how much of an array that is computed later is in memory while it is packed by rows."""


class Constants:
    """A block of constants under construction, in which each constant is stored once.

    Each has its place at once and is written there later, straight from where it comes: `writes`
    may be done by several threads, and nothing is in memory twice.
    """

    def __init__(self) -> None:
        self.size = 0
        self._offsets: dict[Hashable, int] = {}
        self._packed: dict[Hashable, list[slice]] = {}
        """Where a constant lies packed, in each way that it is."""
        self._room = empty_bytes(0)
        """Memory for the block, and for what may follow."""
        self._pending: list[Write] = []

    def expect(self, nbytes: int) -> None:
        """Make room for so many bytes in all, which nothing is written to until it is needed."""
        if nbytes > self._room.nbytes:
            self._finish()
            room = empty_bytes(nbytes)
            room[: self.size] = self._room[: self.size]
            self._room = room

    def raw(self, buffer: Buffer) -> int:
        """Where a whole constant lies, without gaps."""
        return self._place(id(buffer.content), lambda: elements_of(buffer))

    def packed(self, buffer: Buffer, packed: Packed) -> int:
        """The offset of a constant, packed for a kernel; kernels that pack it alike share it."""
        constant = (id(buffer.root.content), buffer.start, buffer.strides)
        key = (*constant, packed)
        if key not in self._offsets:
            others = self._packed.setdefault(constant, [])
            place = self._append(*_packing(buffer, packed))
            found = self._equal(place, others)
            if found is None:
                others.append(place)
            else:
                self.size = place.start
            self._offsets[key] = (found or place).start
        return self._offsets[key]

    def _equal(self, place: slice, others: Sequence[slice]) -> slice | None:
        """Another place of the block, of some, that has the same bytes as the last one."""
        length = place.stop - place.start
        alike = [other for other in others if other.stop - other.start == length]
        if not alike:
            return None
        self._finish()
        equal = (o for o in alike if np.array_equal(self._room[o], self._room[place]))
        return next(equal, None)

    def table(self, table: Table) -> int:
        """Where a kernel's own numbers lie."""
        return self._place(table, lambda: table.data)

    def writes(self) -> list[Write]:
        """What is left to write; whoever takes it does it, in any order, before `block`."""
        taken, self._pending = self._pending, []
        return taken

    def block(self) -> Array:
        """All of them, as bytes; afterwards they are nowhere else."""
        self._finish()
        whole, self._room = self._room[: self.size], empty_bytes(0)
        return whole

    def _finish(self) -> None:
        for write in self.writes():
            write()

    def _place(self, key: Hashable, make: Callable[[], Array]) -> int:
        if key not in self._offsets:
            made = make()
            self._offsets[key] = self._append(Packing.of(made), made).start
        return self._offsets[key]

    def _append(self, packing: Packing, source: Array) -> slice:
        """A place behind what is there, for a packing and zeros up to where the next may begin."""
        start, end = self.size, self.size + _padded(packing.nbytes)
        if end > self._room.nbytes:
            self.expect(max(end, GROWTH * self._room.nbytes))
        self._room[start + packing.nbytes : end] = 0
        self._pending.append(partial(_write, packing, self._room[start:end], source))
        self.size = end
        return slice(start, end)


def _write(packing: Packing, memory: Array, source: Array) -> None:
    """Write a packing, after which what it was made from need not be in memory."""
    packing.write_to(memory)
    release_pages(source)


def _packing(buffer: Buffer, packed: Packed) -> tuple[Packing, Array]:
    """How a constant is written as a kernel reads it, and what the result is made from."""
    content = buffer.root.content
    if isinstance(content, LaterArray) and not buffer.is_view:
        later = _packing_later(content, packed)
        if later is not None:
            return later, content.source
    elements = elements_of(buffer)
    made = packed.pack(elements)
    return made if isinstance(made, Packing) else Packing.of(made), elements


def _packing_later(content: LaterArray, packed: Packed) -> Packing | None:
    """The packing of what is computed when it is written; None if it is packed at once."""
    like = packed.pack(np.broadcast_to(np.zeros((), content.dtype), content.shape))
    if not isinstance(like, Packing):
        return None
    if like.rows:
        return replace(like, write=lambda made: _write_by_rows(made, content, packed, like.rows))

    def write(made: Array) -> None:
        packing = packed.pack(content.array())
        assert isinstance(packing, Packing)
        packing.write(made)

    return Packing(like.shape, like.dtype, write)


def _write_by_rows(made: Array, content: LaterArray, packed: Packed, rows: int) -> None:
    """Write a packing of so many rows an entry, some entries at once: rows are made as needed."""
    entries = max(1, MADE_BYTES * len(made) // max(content.nbytes, 1))
    memory = np.empty((entries * rows, *content.shape[1:]), content.dtype)
    for first in range(0, len(made), entries):
        own = slice(first * rows, min((first + entries) * rows, content.shape[0]))
        part = memory[: own.stop - own.start]
        content.write_rows(part, own.start)
        packing = packed.pack(part)
        assert isinstance(packing, Packing)
        packing.write(made[first : first + entries])
        release_pages(content.source[own])


def _padded(nbytes: int) -> int:
    """The bytes that a constant takes in the block."""
    return -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT


def elements_of(buffer: Buffer) -> Array:
    """The elements of a constant buffer, or of a view of one."""
    root = buffer.root
    assert root.data is not None
    if not buffer.is_view:
        return root.data.reshape(root.type.shape)
    flat = np.ascontiguousarray(root.data).reshape(-1)
    return buffer.of(flat.view(buffer.type.dtype.numpy))
