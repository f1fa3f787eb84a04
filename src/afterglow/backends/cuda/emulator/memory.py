"""The memory of the emulated device: blocks of the host's, whose bounds every access is held to."""

from __future__ import annotations

from bisect import bisect_right, insort

import numpy as np

from afterglow.types import Array

_ALIGNMENT = 256
_GUARD = 256
"""Bytes around a block that are nobody's, so that an access just outside is found."""
_POISON = 0xFF
"""Every byte of memory that was never written: NaN of all float types, -1 of integers."""


class AccessError(Exception):
    """An access to memory that a kernel may not make."""


class Memory:
    """Blocks of memory by their addresses, which are those of the process."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._blocks: dict[int, Array] = {}
        self.written: set[int] = set()
        """The addresses of blocks that kernels wrote to."""

    @property
    def used(self) -> int:
        """The bytes of all blocks."""
        return sum(block.size for block in self._blocks.values())

    def allocate(self, nbytes: int) -> int:
        """The address of a new block, all of whose bytes are poison."""
        room = np.full(nbytes + 2 * _GUARD + _ALIGNMENT, _POISON, np.uint8)
        before = _GUARD + -(room.ctypes.data + _GUARD) % _ALIGNMENT
        return self.adopt(room[before : before + nbytes])

    def adopt(self, data: Array) -> int:
        """Let kernels access a contiguous array; the address of its first byte."""
        block = data.reshape(-1).view(np.uint8)
        address = int(block.ctypes.data)
        if address not in self._blocks:
            insort(self._starts, address)
        self._blocks[address] = block
        self.written.discard(address)
        return address

    def release(self, address: int) -> None:
        """Forget a block."""
        del self._blocks[address]
        self._starts.remove(address)

    def bytes_at(self, address: int, nbytes: int) -> Array:
        """Some bytes of one block, to be read or written."""
        start = self._block_of(address, nbytes)
        return self._blocks[start][address - start : address - start + nbytes]

    def check(self, addresses: Array, mask: Array, size: int) -> set[int]:
        """The blocks of elements of some size, of which those in the mask are touched."""
        used = addresses[mask] if mask.shape == addresses.shape else addresses
        if not used.size:
            return set()
        if int(np.bitwise_or.reduce(used, axis=None)) & (size - 1):
            raise AccessError(f"{size} bytes at an address that is no multiple of {size}")
        low, high = int(used.min()), int(used.max())
        start = self._block_before(low)
        if start is not None and high + size <= start + self._blocks[start].size:
            return {start}
        return {self._block_of(address, size) for address in np.unique(used).tolist()}

    def _block_of(self, address: int, size: int) -> int:
        """The block that holds some bytes."""
        start = self._block_before(address)
        if start is None or address + size > start + self._blocks[start].size:
            raise AccessError(self._explain(address, size))
        return start

    def _block_before(self, address: int) -> int | None:
        """The block that begins at an address, or is the last before it."""
        place = bisect_right(self._starts, address) - 1
        return self._starts[place] if place >= 0 else None

    def _explain(self, address: int, size: int) -> str:
        """What an address is that lies in no block: by the nearest one."""
        distances = [
            (min(abs(address - start), abs(address - start - self._blocks[start].size)), start)
            for start in self._starts
        ]
        if not distances:
            return f"{size} bytes at {address:#x}, where nothing was ever allocated"
        start = min(distances)[1]
        extent = self._blocks[start].size
        return f"{size} bytes at offset {address - start} of memory that has {extent} bytes"
