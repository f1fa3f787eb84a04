"""Files that are there as a whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

PART_SUFFIX = ".part"
"""How the names of files end that are being written."""


def replace_file(path: Path, parts: Iterable[bytes | memoryview], *, durable: bool = False) -> None:
    """Write a file beside its place and then put it there, over what was there before."""
    with replacing(path, durable=durable) as file:
        for data in parts:
            file.write(data)


@contextlib.contextmanager
def replacing(path: Path, *, durable: bool = False) -> Iterator[BinaryIO]:
    """A file to write to, which takes its place once all is written.

    Whoever reads sees the old file or the new one. A durable file is so even if the machine
    loses its power right afterwards; that takes as long as the disk takes.
    """
    part = path.with_name(f".{path.name}.{os.urandom(4).hex()}{PART_SUFFIX}")
    try:
        with part.open("x+b") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
