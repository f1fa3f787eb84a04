"""Files that others name, opened only if they are what they should be.

A name in a model may lead anywhere: to a device that never ends, to a pipe on which opening waits,
or out of the model's folder. So what a name leads to is looked at before anything of it is read.
"""

from __future__ import annotations

import errno
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


def check_regular(path: Path, mode: int) -> None:
    """Raise an `OSError` if what has this mode is a folder, a device, a pipe or a socket."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))


def path_inside(folder: Path, location: str) -> Path | None:
    """The path of a file in a folder or below it; None if the location leads out of there.

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
