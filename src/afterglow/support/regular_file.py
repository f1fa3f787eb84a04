"""Opening files named by a model, only if they are regular files inside its folder.

A path in a model is untrusted: it may name an endless device, a pipe that blocks when opened, or a
file outside of the model's folder. So it is checked before anything is read.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
from io import BufferedReader
from pathlib import Path, PurePosixPath, PureWindowsPath

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def open_regular(path: Path) -> BufferedReader:
    """Open a file to be read; an `OSError` if it is a folder, a device, a pipe or a socket."""
    check_regular(path, os.stat(path).st_mode)
    # not to wait, if it has become a pipe meanwhile
    descriptor = os.open(path, _FLAGS)
    try:
        check_regular(path, os.fstat(descriptor).st_mode)
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


class FileMap(mmap.mmap):
    """The bytes of a file in memory, which nobody writes: pages can be read again at any time."""

    def release(self, start: int, stop: int) -> None:
        """Give back the memory of the whole pages in a range, until they are read again."""
        first, end = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE, stop // mmap.PAGESIZE
        length = end * mmap.PAGESIZE - first
        if length > 0 and hasattr(mmap, "MADV_DONTNEED"):
            self.madvise(mmap.MADV_DONTNEED, first, length)


def map_file(path: Path) -> memoryview:
    """The bytes of a file: read as they are used, and shared with whoever else reads it."""
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size == 0:  # which cannot be mapped
            return memoryview(b"")
        return memoryview(FileMap(file.fileno(), 0, access=mmap.ACCESS_READ))


def check_regular(path: Path, mode: int) -> None:
    """Raise an `OSError` if what has this mode is a folder, a device, a pipe or a socket."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))


def path_inside(folder: Path, location: str) -> Path | None:
    """The path of a file in a folder or below it; None if it lies elsewhere.

    All symbolic links are followed, and what any system takes for an absolute path leads out.
    """
    spellings = (PurePosixPath(location), PureWindowsPath(location))
    leaves = any(path.anchor or ".." in path.parts for path in spellings)
    path = folder / location
    return None if not location or leaves or not _is_inside(path, folder) else path


def _is_inside(path: Path, folder: Path) -> bool:
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):  # a loop of links, a byte no path can have
        return False
