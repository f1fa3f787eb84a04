"""Shared memory of local clients: regions that they register, read and written by name.

Regions are read and written as files rather than mapped: a client that shortens one gets an error,
where a mapping would end the server.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from afterglow.serve.errors import ErrorKind, RequestError, invalid, not_found
from afterglow.serve.tensors import SharedRegion
from afterglow.support.lazy_dataclass import dataclass

FOLDER = Path("/dev/shm")
_KEY = re.compile(r"/?[A-Za-z0-9][A-Za-z0-9_.\-]{0,250}")
_MOST_REGIONS = 256
_LARGEST = 1 << 40


@dataclass(frozen=True)
class RegisteredRegion:
    """A region: the file that it is, and which part of it."""

    name: str
    key: str
    offset: int
    nbytes: int
    file: int

    def data(self) -> dict[str, Any]:
        """The region as the protocol shows it."""
        return {
            "name": self.name,
            "key": self.key,
            "offset": self.offset,
            "byte_size": self.nbytes,
        }


class SharedMemory:
    """The regions that clients registered."""

    def __init__(self, *, is_enabled: bool) -> None:
        self.is_enabled = is_enabled
        self._regions: dict[str, RegisteredRegion] = {}

    def _check_enabled(self) -> None:
        if not self.is_enabled:
            raise RequestError(
                ErrorKind.UNIMPLEMENTED,
                "shared memory is off",
                help="start the server with --shared-memory",
            )

    def register(self, name: str, key: Any, offset: Any, nbytes: Any) -> None:
        """Make a part of a file under /dev/shm known by a name."""
        self._check_enabled()
        if name in self._regions:
            raise invalid(f"there is a shared memory region {name[:80]!r} already")
        if len(self._regions) >= _MOST_REGIONS:
            raise invalid(f"there are {_MOST_REGIONS} shared memory regions, which is the limit")
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise invalid("the key of a shared memory region must be a plain name")
        if any(type(n) is not int or not 0 <= n <= _LARGEST for n in (offset, nbytes)):
            raise invalid("the offset and size of a shared memory region must be bytes")
        file = _opened(key.lstrip("/"))
        if os.fstat(file).st_size < offset + nbytes:
            os.close(file)
            raise invalid(f"shared memory {key!r} has fewer than {offset + nbytes:,} bytes")
        self._regions[name] = RegisteredRegion(name, key, offset, nbytes, file)

    def unregister(self, name: str) -> None:
        """Forget a region, or all of them without a name."""
        self._check_enabled()
        for each in [name] if name else [*self._regions]:
            region = self._regions.pop(each, None)
            if region is not None:
                with suppress(OSError):
                    os.close(region.file)

    def status(self, name: str) -> list[dict[str, Any]]:
        """The region of a name, or all of them."""
        self._check_enabled()
        if name:
            return [self._find(name).data()]
        return [region.data() for region in self._regions.values()]

    def _find(self, name: str) -> RegisteredRegion:
        self._check_enabled()
        region = self._regions.get(name)
        if region is None:
            raise not_found(f"there is no shared memory region {name[:80]!r}")
        return region

    def read(self, part: SharedRegion) -> memoryview:
        """The bytes of a part of a region."""
        region = self._part(part)
        found = os.pread(region.file, part.nbytes, region.offset + part.offset)
        if len(found) != part.nbytes:
            raise invalid(f"shared memory region {part.name[:80]!r} was shortened")
        return memoryview(found)

    def write(self, part: SharedRegion, data: bytes) -> None:
        """Write the bytes of an output to a part of a region."""
        region = self._part(part)
        if len(data) > part.nbytes:
            raise invalid(
                f"shared memory region {part.name[:80]!r} has {part.nbytes:,} bytes for an output "
                f"of {len(data):,}"
            )
        end = region.offset + part.offset + len(data)
        if os.fstat(region.file).st_size < end:
            raise invalid(f"shared memory region {part.name[:80]!r} was shortened")
        os.pwrite(region.file, data, region.offset + part.offset)

    def _part(self, part: SharedRegion) -> RegisteredRegion:
        region = self._find(part.name)
        if part.offset + part.nbytes > region.nbytes:
            raise invalid(f"shared memory region {part.name[:80]!r} has {region.nbytes:,} bytes")
        return region

    def close(self) -> None:
        """Forget all regions."""
        if self.is_enabled:
            self.unregister("")


def _opened(name: str) -> int:
    """A file of shared memory; never a link, nor anything but a regular file."""
    try:
        file = os.open(FOLDER / name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        why = (error.strerror or "").lower()
        raise invalid(f"shared memory {name!r} cannot be opened: {why}") from None
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise invalid(f"shared memory {name!r} is not a file")
    return file
