"""Atomic file writes: a file is replaced as a whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from afterglow.support.regular_file import check_regular

PART_SUFFIX = ".part"
"""Suffix of files that are still being written."""
_MOST_OF_NAME = 48
"""Characters of the final name in the temporary one: file systems limit the length of names."""


def replace_file(path: Path, parts: Iterable[bytes | memoryview], *, durable: bool = False) -> None:
    """Write a temporary file and rename it to the path, replacing what was there."""
    with replacing(path, durable=durable) as file:
        for data in parts:
            file.write(data)


@contextlib.contextmanager
def replacing(path: Path, *, durable: bool = False) -> Iterator[BinaryIO]:
    """A file to write to, which takes its place once all is written.

    Whoever reads sees the old file or the new one. A durable file is so even if the machine
    loses its power right afterwards; that takes as long as the disk takes. The new file may be read
    by whoever could read the old one. An `OSError` if there is something else than a file.
    """
    mode = _mode(path)
    part = path.with_name(f".{path.name[:_MOST_OF_NAME]}.{os.urandom(4).hex()}{PART_SUFFIX}")
    try:
        with part.open("x+b") as file:
            if mode is not None:
                part.chmod(mode)
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def _mode(path: Path) -> int | None:
    """The permission bits of an existing file; None if it does not exist."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    check_regular(path, mode)
    return stat.S_IMODE(mode)
