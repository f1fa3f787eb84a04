"""Memory between pages that nobody may touch, so that one byte out of bounds is a crash."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

PAGE = mmap.PAGESIZE
_NONE, _READ = 0, mmap.PROT_READ
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
RUBBISH = 0xFB
"""What fresh memory is full of: large odd integers, and NaN for some floats."""


class Guarded:
    """A block of bytes that ends, or begins, exactly at a page without access."""

    def __init__(self, size: int, *, at_end: bool, alignment: int = 1) -> None:
        self.size = size
        self._room = -(-max(size, 1) // PAGE) * PAGE
        self._map = mmap.mmap(-1, self._room + 2 * PAGE)
        self._bytes = np.frombuffer(self._map, np.uint8)
        first = self._bytes.ctypes.data
        self._inner = first + PAGE
        self._protect(first, PAGE, _NONE)
        self._protect(self._inner + self._room, PAGE, _NONE)
        start = (self._room - size) // alignment * alignment if at_end else 0
        self.address = self._inner + start
        self.content = self._bytes[PAGE + start : PAGE + start + size]
        self.content[:] = RUBBISH

    @classmethod
    def holding(cls, data: Any, *, at_end: bool, alignment: int = 1) -> Guarded:
        """A block with the bytes of an array, which can only be read."""
        raw = np.frombuffer(data.tobytes(), np.uint8)
        guarded = cls(raw.size, at_end=at_end, alignment=alignment)
        guarded.content[:] = raw
        guarded._protect(guarded._inner, guarded._room, _READ)
        return guarded

    def array(self, dtype: Any, shape: tuple[int, ...]) -> Any:
        """A copy of what it holds."""
        return np.frombuffer(self.content.tobytes(), dtype).reshape(shape)

    def _protect(self, address: int, size: int, access: int) -> None:
        if _LIBC.mprotect(address, size, access) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")
