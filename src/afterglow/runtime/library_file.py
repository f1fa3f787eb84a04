"""Shared libraries as files: sealed with a checksum, so that a damaged one is not run.

A seal is 24 bytes at the end of a library in the ELF format, which allows that: the magic
`AGLIBRY1`, the number of bytes before it (8 bytes, little endian), their checksum (4 bytes, that of
`support.checksum`) and zeros. Tools that write libraries anew, such as `strip`, drop it: such a
library is loaded if it is at least complete.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

from afterglow.support.checksum import checksum
from afterglow.support.errors import UsageError
from afterglow.support.regular_file import open_regular

_MAGIC = b"AGLIBRY1"
_SEAL = struct.Struct("<8sQI4x")
_ELF, _ELF_64_LITTLE = b"\x7fELF", b"\x02\x01"
_HEADER = struct.Struct("<32xQ14xHH")
"""Of a file of 64 bits: where the program headers are, the size of one, and how many there are."""
_PROGRAM_HEADER = struct.Struct("<I4xQ16xQ")
"""Its kind, and the offset and the size of what it has in the file."""
_LOADED = 1


def seal_library(path: Path) -> None:
    """Add a seal to a library, if its format allows that."""
    data = path.read_bytes()
    if data.startswith(_ELF):
        with path.open("ab") as file:
            file.write(_SEAL.pack(_MAGIC, len(data), checksum(data)))


def check_library(path: Path) -> None:
    """Raise if a library is damaged, as far as that can be told without running it."""
    try:
        with open_regular(path) as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"{path} cannot be loaded: {reason.lower()}") from None
    content, seal = data[: -_SEAL.size], bytes(data[-_SEAL.size :])
    if seal.startswith(_MAGIC):
        if seal != _SEAL.pack(_MAGIC, len(content), checksum(content)):
            raise _damaged(
                path, "it has changed since it was exported: its checksum does not match"
            )
    elif bytes(data[:4]) == _ELF and any(end > len(data) for end in _ends(data)):
        raise _damaged(path, "it is truncated")


def _ends(data: memoryview) -> Iterator[int]:
    """Where the parts of a library end that are loaded from its file."""
    if len(data) < _HEADER.size:
        yield _HEADER.size
    elif bytes(data[4:6]) == _ELF_64_LITTLE:
        first, size, count = _HEADER.unpack_from(data)
        yield first + size * count
        last = min(first + size * count, len(data)) - _PROGRAM_HEADER.size
        for start in range(first, last + 1, max(size, 1)):
            kind, offset, length = _PROGRAM_HEADER.unpack_from(data, start)
            if kind == _LOADED:
                yield offset + length


def _damaged(path: Path, fault: str) -> UsageError:
    return UsageError(
        f"{path} cannot be loaded: {fault}", help="copy the file again, or export the bundle again"
    )
