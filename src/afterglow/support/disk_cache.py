"""A cache on disk: bytes by key, of bounded size, shared by processes.

An entry is a file: the content, then a footer of 24 bytes, little endian: the magic `AGCACHE1`, the
length of the content (8 bytes), a CRC-32 of the key and the content (4 bytes), and zeros. A
truncated, damaged or misplaced entry is detected when it is read, and content begins at a page.

The cache is best effort: any error of the file system counts as a miss.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import struct
import time
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from afterglow.support.atomic_file import PART_SUFFIX, replace_file
from afterglow.support.errors import warn
from afterglow.support.private_folder import make_private

_MAGIC = b"AGCACHE1"
_FOOTER = struct.Struct("<8sQI4x")
_KEY = re.compile(r"[0-9a-f]{8,128}")
_SUFFIX = ".entry"
CACHE_PARTS = ("kernels", "digests", "winners", "rates", "models")
"""Names of the subfolders of the cache."""
_ABANDONED_AFTER = 3600.0
"""Seconds after which an unfinished file is considered abandoned."""


FOLDER_VARIABLES = ("AFTERGLOW_CACHE", "XDG_CACHE_HOME", "HOME")
"""The variables of the environment that say where the cache lies; the first that is set counts."""


def default_folder(environ: Mapping[str, str]) -> Path:
    """Where the cache lies unless the user says otherwise, by the variables of the environment."""
    if environ.get("AFTERGLOW_CACHE"):
        return Path(environ["AFTERGLOW_CACHE"])
    if environ.get("XDG_CACHE_HOME"):
        return Path(environ["XDG_CACHE_HOME"]) / "afterglow"
    home = environ.get("HOME") or os.path.expanduser("~")
    return Path(home) / ".cache" / "afterglow"


class DiskCache:
    """Entries in a folder, which is made when it is needed.

    Keys are hexadecimal digests, of whatever determines the content. The entries that were not used
    for the longest time are removed when all together exceed the limit, by up to an eighth for
    each process that writes. `warns`: tell the user if nothing can be stored.
    """

    def __init__(self, folder: Path, limit_bytes: int, *, warns: bool = True) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        self._room = 0
        """Bytes that may be written before the folder is looked at again."""
        self._warns = warns

    def get(self, key: str) -> bytes | None:
        """The content that was put under a key, if it is there and whole."""
        content = self.get_mapped(key)
        return None if content is None else bytes(content)

    def get_mapped(self, key: str) -> memoryview | None:
        """As `get`, without copying: pages of the file itself."""
        path = self._path(key)
        try:
            with path.open("rb") as file:
                data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except OSError:
            return None
        except ValueError:  # an empty file cannot be mapped
            data = memoryview(b"")
        return self._checked(path, key, data)

    def put(self, key: str, data: bytes | memoryview) -> None:
        """Store content under a key, replacing what was there."""
        path = self._path(key)
        size = len(data) + _FOOTER.size
        if size > self.limit_bytes:
            return
        try:
            make_private(self.folder)
            if size > self._room:
                self._make_room(size)
            replace_file(path, [data, _FOOTER.pack(_MAGIC, len(data), _checksum(key, data))])
            self._room -= size
        except OSError as problem:
            self._warn(problem)

    def _path(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise ValueError(f"a key is a hexadecimal digest, not {key!r}")
        return self.folder / f"{key}{_SUFFIX}"

    def _checked(self, path: Path, key: str, data: memoryview) -> memoryview | None:
        """The content of an entry, marked as used; a damaged entry is removed."""
        content = data[: -_FOOTER.size]
        footer = bytes(data[-_FOOTER.size :])
        if footer == _FOOTER.pack(_MAGIC, len(content), _checksum(key, content)):
            with contextlib.suppress(OSError):
                os.utime(path)
            return content
        with contextlib.suppress(OSError):
            path.unlink()
        return None

    def _make_room(self, size: int) -> None:
        """Remove what was not used for the longest time, until there is room for some writing."""
        entries = sorted(self._entries())
        total = sum(length for _, length, _ in entries)
        slack = max(size, self.limit_bytes // 8)
        for _, length, path in entries:
            if total + slack <= self.limit_bytes:
                break
            with contextlib.suppress(OSError):
                os.unlink(path)
            total -= length
        # other processes write too, so the folder is looked at again before it can be full
        self._room = slack

    def _entries(self) -> Iterator[tuple[float, int, str]]:
        """When each entry was last used, its size and its path; removes what was never finished."""
        abandoned = time.time() - _ABANDONED_AFTER
        with os.scandir(self.folder) as files:
            for file in files:
                with contextlib.suppress(OSError):
                    if file.name.endswith(_SUFFIX):
                        yield file.stat().st_mtime, file.stat().st_size, file.path
                    elif file.name.endswith(PART_SUFFIX) and file.stat().st_mtime < abandoned:
                        os.unlink(file.path)

    def _warn(self, problem: OSError) -> None:
        if self._warns:
            self._warns = False
            reason = (problem.strerror or str(problem)).lower()
            warn(f"nothing is cached in {self.folder}: {reason}")


def _checksum(key: str, data: bytes | memoryview) -> int:
    return zlib.crc32(data, zlib.crc32(key.encode()))
