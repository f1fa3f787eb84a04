"""Loading an image into this process: mapped, filled in, and then protected.

Every model is loaded by this module, which needs no LLVM. `backends/cpu/llvm/load.py` is the other
loader: it loads single object files by LLVM's linker, while kernels are being written and tested.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from collections.abc import Mapping
from functools import cache
from typing import Any

from afterglow.runtime.native.convention import C_LIBRARY
from afterglow.runtime.native.image import Image
from afterglow.runtime.native.machine import own_architecture
from afterglow.support.errors import CompileError, UnsupportedError, UsageError
from afterglow.support.lazy_dataclass import dataclass

_FIXED = 0x10
"""Linux's flag to map at exactly the address given."""


@dataclass(frozen=True)
class FilePart:
    """Where the code of an image lies in an open file: at a multiple of the size of pages."""

    descriptor: int
    offset: int


class Loaded:
    """An image in memory; gone when nothing refers to it."""

    def __init__(self, image: Image, address: int) -> None:
        self.image = image
        self.address = address
        self.addresses: dict[str, int] = {
            name: address + offset for name, offset in image.symbols.items()
        }
        """Where functions are, by name."""

    def function(self, name: str, *arguments: Any, result: Any = None) -> Any:
        """A callable from Python, given ctypes of its arguments and its result."""
        made: Any = ctypes.CFUNCTYPE(result, *arguments)(self.addresses[name])
        made.library = self
        return made


def load_image(
    image: Image, imports: Mapping[str, int] | None = None, file: FilePart | None = None
) -> Loaded:
    """Put an image into memory, ready to run.

    `imports` are the addresses of the functions from outside; those of the C library are known. If
    the code lies in a file, its pages are shared with all processes that load it from there; where
    the file cannot be mapped, the code is copied.
    """
    _check_machine(image)
    addresses = _import_addresses(image, imports or {})
    memory = _Memory(image.size)
    loaded = Loaded(image, memory.address)
    unmap = weakref.finalize(loaded, memory.unmap)
    # threads may still run the code while the process ends, and then nothing need be given back
    unmap.atexit = False
    mapped = 0 if file is None else memory.map_file(file, len(image.code))
    memory.write(mapped, image.code[mapped:])
    _fill_words(image, memory.address, addresses)
    memory.protect(0, image.constants, mmap.PROT_READ | mmap.PROT_EXEC)
    memory.protect(image.constants, image.writable, mmap.PROT_READ)
    return loaded


def _check_machine(image: Image) -> None:
    if not hasattr(os, "uname") or os.uname().sysname != "Linux":
        raise UnsupportedError(
            "images are loaded only on Linux", help="elsewhere, load the code with load_host"
        )
    if own_architecture() != image.machine:
        here = os.uname().machine
        raise UsageError(f"the image is code for {image.machine} and does not run on {here}")


def _import_addresses(image: Image, imports: Mapping[str, int]) -> dict[str, int]:
    given = {**_c_library(), **imports}
    missing = sorted(set(image.imports) - set(given))
    if missing:
        names = ", ".join(f"'{name}'" for name in missing)
        raise CompileError(f"the image calls {names}: no address was given")
    return {name: given[name] for name in image.imports}


@cache
def _c_library() -> dict[str, int]:
    process = ctypes.CDLL(None)
    return {
        name: ctypes.cast(getattr(process, name), ctypes.c_void_p).value or 0 for name in C_LIBRARY
    }


def _fill_words(image: Image, address: int, imports: Mapping[str, int]) -> None:
    """Add addresses to the words that wait for them."""
    for word in image.pointers:
        ctypes.c_uint64.from_address(address + word).value += address
    for name, words in image.imports.items():
        for word in words:
            ctypes.c_uint64.from_address(address + word).value += imports[name]


class _Memory:
    """Pages of this process, at first readable and writable.

    Text is made executable when it is no longer writable. The kernel then also makes what was
    written visible to the fetching of instructions, where these have a cache of their own.
    """

    def __init__(self, size: int) -> None:
        self.size = max(size, 1)
        self.address = _map(None, self.size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)

    def unmap(self) -> None:
        """Give the pages back."""
        _system().munmap(self.address, self.size)

    def map_file(self, file: FilePart, size: int) -> int:
        """Map the whole pages of a part of a file; returns how many bytes they have.

        Pages that are changed later are copied then, and the file stays as it is.
        """
        whole = size // mmap.PAGESIZE * mmap.PAGESIZE
        if file.offset % mmap.PAGESIZE or not whole:
            return 0
        if _is_kept_from_running(file.descriptor):
            return 0
        try:
            _map(self.address, whole, mmap.MAP_PRIVATE | _FIXED, file.descriptor, file.offset)
        except OSError:
            return 0
        return whole

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """Copy data to an offset."""
        room = (ctypes.c_char * len(data)).from_address(self.address + offset)
        memoryview(room).cast("B")[:] = data

    def protect(self, start: int, end: int, protection: int) -> None:
        """Say what may be done with the pages from one offset to another."""
        if start < end and _system().mprotect(self.address + start, end - start, protection):
            problem = os.strerror(ctypes.get_errno())
            raise UsageError(f"this system does not let code be loaded: {problem}")


def _is_kept_from_running(descriptor: int) -> bool:
    """Whether the file system of a file is mounted so that no code runs from it."""
    return bool(os.fstatvfs(descriptor).f_flag & os.ST_NOEXEC)


def _map(address: int | None, size: int, flags: int, descriptor: int, offset: int) -> int:
    protection = mmap.PROT_READ | mmap.PROT_WRITE
    found: int = _system().mmap(address, size, protection, flags, descriptor, offset)
    if found == ctypes.c_size_t(-1).value:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return found


@cache
def _system() -> Any:
    """The C library, with the types of what is called here."""
    library = ctypes.CDLL(None, use_errno=True)
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    library.mmap.argtypes = [pointer, size, number, number, number, ctypes.c_int64]
    library.mmap.restype = size
    library.mprotect.argtypes = [pointer, size, number]
    library.munmap.argtypes = [pointer, size]
    return library
