"""The constants of a compiled program: weights as they are, weights packed, tables of kernels."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np

from afterglow.backends.cpu.micro.kernel import Packed, Table
from afterglow.instr import Buffer
from afterglow.runtime.native.convention import ALIGNMENT
from afterglow.runtime.native.memory import empty_bytes
from afterglow.types import Array


class Constants:
    """A block of constants under construction, in which each constant is stored once."""

    def __init__(self) -> None:
        self.size = 0
        self._offsets: dict[Hashable, int] = {}
        self._made: list[tuple[int, Callable[[], Array]]] = []
        self._packed: dict[Hashable, list[tuple[int, Array]]] = {}

    def raw(self, buffer: Buffer) -> int:
        """Where a whole constant lies, without gaps."""
        return self._place(id(buffer.data), buffer.type.nbytes, lambda: elements_of(buffer))

    def packed(self, buffer: Buffer, packed: Packed) -> int:
        """The offset of a constant, packed for a kernel; kernels that pack it alike share it."""
        constant = (id(buffer.root.data), buffer.start, buffer.strides)
        key = (*constant, packed)
        if key in self._offsets:
            return self._offsets[key]
        data = np.ascontiguousarray(packed.pack(elements_of(buffer)))
        others = self._packed.setdefault(constant, [])
        for offset, other in others:
            if other.dtype == data.dtype and np.array_equal(other, data):
                self._offsets[key] = offset
                return offset
        others.append((self._place(key, data.nbytes, lambda: data), data))
        return self._offsets[key]

    def table(self, table: Table) -> int:
        """Where a kernel's own numbers lie."""
        return self._place(table, table.data.nbytes, lambda: table.data)

    def block(self) -> Array:
        """All of them, as bytes; afterwards they are nowhere else."""
        whole = empty_bytes(self.size)
        end = self.size
        self._packed.clear()
        while self._made:
            offset, make = self._made.pop()
            data = np.ascontiguousarray(make()).reshape(-1).view(np.uint8)
            whole[offset : offset + data.nbytes] = data
            whole[offset + data.nbytes : end] = 0
            end = offset
        return whole

    def _place(self, key: Hashable, nbytes: int, make: Callable[[], Array]) -> int:
        if key not in self._offsets:
            self._offsets[key] = self.size
            self._made.append((self.size, make))
            self.size += -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT
        return self._offsets[key]


def elements_of(buffer: Buffer) -> Array:
    """The elements of a constant buffer, or of a view of one."""
    root = buffer.root
    assert root.data is not None
    if not buffer.is_view:
        return root.data.reshape(root.type.shape)
    flat = np.ascontiguousarray(root.data).reshape(-1)
    return buffer.of(flat.view(buffer.type.dtype.numpy))
