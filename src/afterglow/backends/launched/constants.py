"""The constants of a program in one block: as they are, and packed for kernels."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from afterglow.backends.launched.parameters import Packed, Table, elements_of
from afterglow.instr import Buffer
from afterglow.runtime.native.convention import ALIGNMENT
from afterglow.types import Array


class Constants:
    """A block of constants under construction, in which each is stored once."""

    def __init__(self) -> None:
        self.size = 0
        self._parts: list[Array] = []
        self._offsets: dict[Hashable, int] = {}

    def raw(self, buffer: Buffer) -> int:
        """Where a whole constant lies, without gaps."""
        return self._place(id(buffer.content), np.asarray(buffer.data))

    def packed(self, packed: Packed) -> int:
        """Where a constant lies in another order."""
        buffer = packed.buffer
        key = (id(buffer.root.content), buffer.start, buffer.strides, packed.order)
        if key in self._offsets:
            return self._offsets[key]
        return self._place(key, packed.pack(elements_of(buffer)))

    def table(self, table: Table) -> int:
        """Where the numbers of a kernel lie."""
        return self._place((table.data.dtype.str, table.data.tobytes()), table.data)

    def block(self) -> Array:
        """All of them, as bytes."""
        return np.concatenate(self._parts) if self._parts else np.zeros(0, np.uint8)

    def _place(self, key: Hashable, data: Array) -> int:
        if key not in self._offsets:
            raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
            self._offsets[key] = self.size
            self._parts += [raw, np.zeros(-raw.size % ALIGNMENT, np.uint8)]
            self.size += raw.size + -raw.size % ALIGNMENT
        return self._offsets[key]
