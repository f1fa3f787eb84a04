"""A file of named sections, with metadata: what models are saved in.

All numbers are little endian. The file begins with a prelude of 64 bytes:

| offset | bytes | what |
|---|---|---|
| 0 | 8 | the magic `AFTERGLW` |
| 8 | 4 | version of the format |
| 12 | 4 | flags; a reader that does not know one of the upper 16 refuses the file |
| 16 | 8 | size of the table |
| 24 | 8 | size of the file |
| 32 | 4 | CRC-32 of the table |
| 36 | 24 | zeros |
| 60 | 4 | CRC-32 of the 60 bytes before |

The table follows at once. It is JSON, in UTF-8:
`{"metadata": {…}, "sections": {NAME: {"offset": …, "size": …, "checksum": …}, …}}`.
The sections follow, each at a multiple of 4096 bytes, with zeros between them; their offsets count
from the first such multiple after the table. Sections that hold the same share their place. The
file ends with the last section. The checksums of sections are those of `support.checksum`.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from afterglow.support.atomic_file import replace_file
from afterglow.support.checksum import checksum
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.regular_file import open_regular

VERSION = 3
"""The version of the format that is written, and the only one that is read."""
PAGE = 4096
"""Bytes of a page: the offsets of sections are multiples of it, so that they can be mapped."""

_MAGIC = b"AFTERGLW"
_PRELUDE = struct.Struct("<8sIIQQI24x")
_CHECKSUM = struct.Struct("<I")
_TABLE_AT = _PRELUDE.size + _CHECKSUM.size
_MUST_KNOW = 0xFFFF0000


@dataclass(frozen=True)
class _Place:
    """Where a section lies, from the first on, and the checksum of what it holds."""

    offset: int
    size: int
    checksum: int


def write_container(
    path: Path,
    metadata: Mapping[str, Any],
    sections: Mapping[str, bytes | memoryview],
    *,
    durable: bool = True,
) -> None:
    """Save sections and metadata, which is what JSON can hold, over what was there before.

    See `replace_file` for what is durable.
    """
    replace_file(path, container_parts(metadata, sections), durable=durable)


def container_parts(
    metadata: Mapping[str, Any], sections: Mapping[str, bytes | memoryview]
) -> Iterator[bytes | memoryview]:
    """What such a file holds, piece by piece."""
    flat = {name: memoryview(data).cast("B") for name, data in sections.items()}
    places = _place_sections(flat)
    table = {"metadata": metadata, "sections": {name: vars(p) for name, p in places.items()}}
    text = json.dumps(table, separators=(",", ":"), ensure_ascii=False).encode()
    return _parts(text, places, flat)


def _place_sections(sections: Mapping[str, memoryview]) -> dict[str, _Place]:
    """One after the other, but for those that equal an earlier one: they lie where it does."""
    places: dict[str, _Place] = {}
    first: dict[tuple[int, int], str] = {}
    start = 0
    for name, data in sections.items():
        content = checksum(data)
        known = first.setdefault((len(data), content), name)
        if known != name and sections[known] == data:
            places[name] = places[known]
            continue
        places[name] = _Place(start, len(data), content)
        start = _round_up(start + len(data))
    return places


def _round_up(offset: int) -> int:
    return -(-offset // PAGE) * PAGE


def _parts(
    table: bytes, places: Mapping[str, _Place], sections: Mapping[str, memoryview]
) -> Iterator[bytes | memoryview]:
    """What the file holds, piece by piece."""
    end = _TABLE_AT + len(table)
    first = _round_up(end)
    size = max([end, *(first + place.offset + place.size for place in places.values())])
    prelude = _PRELUDE.pack(_MAGIC, VERSION, 0, len(table), size, zlib.crc32(table))
    yield prelude + _CHECKSUM.pack(zlib.crc32(prelude)) + table
    written: set[_Place] = set()
    for name, place in places.items():
        if place in written:
            continue
        written.add(place)
        yield bytes(first + place.offset - end)
        yield sections[name]
        end = first + place.offset + place.size


class Container:
    """An open file of sections. Its pages are shared with all processes that open it.

    It stays open as long as something refers to it or to one of its sections.
    """

    def __init__(self, path: Path, file: BinaryIO, table: dict[str, Any], first: int) -> None:
        self.path = path
        self.metadata: dict[str, Any] = table["metadata"]
        self._file = file
        self._first = first
        self._places = {name: _Place(**place) for name, place in table["sections"].items()}
        self._pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._data = memoryview(self._pages)

    @property
    def names(self) -> list[str]:
        """The names of the sections, in their order."""
        return list(self._places)

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def section(self, name: str) -> memoryview:
        """What a section holds: pages of the file, which cannot be written."""
        place = self._place(name)
        start = self._first + place.offset
        return self._data[start : start + place.size]

    def locate(self, name: str) -> tuple[int, int]:
        """The descriptor of the file and the offset of a section: to map it in another way."""
        return self._file.fileno(), self._first + self._place(name).offset

    def verify(self) -> None:
        """Raise if a section is not what was saved; reads the whole file."""
        for place, name in {place: name for name, place in self._places.items()}.items():
            if checksum(self.section(name)) != place.checksum:
                fault = f"section '{name}' is not what was saved: its checksum is off"
                raise _damaged(self.path, fault)
        if hasattr(mmap, "MADV_DONTNEED"):
            # so that this process has the pages that it uses, rather than all
            self._pages.madvise(mmap.MADV_DONTNEED)

    def _place(self, name: str) -> _Place:
        if name not in self._places:
            there = ", ".join(self._places) or "none"
            raise UsageError(
                f"{self.path}: the file has no section '{name}'",
                help=f"its sections: {there}; it may hold something else than is asked of it",
            )
        return self._places[name]


def is_container(beginning: bytes | memoryview) -> bool:
    """Whether a file that begins so is one that `write_container` saved, whole or not."""
    return bytes(beginning[: len(_MAGIC)]) == _MAGIC


def read_container(path: Path) -> Container:
    """Open a file that `write_container` saved; it is refused if anything in it was changed."""
    try:
        file = open_regular(path)
    except OSError as problem:
        raise UsageError(f"{path}: cannot be opened: {problem.strerror}") from None
    except ValueError as problem:  # a path that no file can have
        raise UsageError(f"{str(path)!r} cannot be opened: {problem}") from None
    try:
        return _read(path, file)
    except BaseException:
        file.close()
        raise


def read_metadata(path: Path) -> dict[str, Any]:
    """The metadata of a file that `write_container` saved; its sections are not looked at."""
    with open_regular(path) as file:
        table, _ = _read_table(path, file)
    found: dict[str, Any] = table["metadata"]
    return found


def _read(path: Path, file: BinaryIO) -> Container:
    container = Container(path, file, *_read_table(path, file))
    container.verify()
    return container


def _read_table(path: Path, file: BinaryIO) -> tuple[dict[str, Any], int]:
    """The table, and where the sections begin."""
    table_size, table_checksum = _check_prelude(path, file.read(_TABLE_AT), _size(file))
    table = file.read(table_size)
    if zlib.crc32(table) != table_checksum:
        raise _damaged(path, "the table of sections was changed: its checksum is off")
    return json.loads(table), _round_up(_TABLE_AT + table_size)


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _check_prelude(path: Path, prelude: bytes, size: int) -> tuple[int, int]:
    """The size and the checksum of the table, if the file is one of ours, and complete."""
    if not is_container(prelude):
        raise UsageError(
            f"{path}: not a saved model", help="give a file that `afterglow` has written"
        )
    if len(prelude) < _TABLE_AT:
        raise _damaged(path, f"the file is truncated: {size:,} of at least {_TABLE_AT} bytes")
    _, version, flags, table_size, whole_size, table_checksum = _PRELUDE.unpack_from(prelude)
    # a later version may place its checksum elsewhere, so its number is looked at first
    _check_version(path, version)
    if _CHECKSUM.pack(zlib.crc32(prelude[: _PRELUDE.size])) != prelude[_PRELUDE.size :]:
        raise _damaged(path, "the beginning of the file was changed: its checksum is off")
    if flags & _MUST_KNOW:
        raise UsageError(
            f"{path}: the file needs features that this version does not have (flags {flags:#x})",
            help="open it with a newer version of Afterglow",
        )
    if size != whole_size:
        fault = "truncated" if size < whole_size else "too long"
        raise _damaged(path, f"the file is {fault}: {size:,} of {whole_size:,} bytes")
    return table_size, table_checksum


def _check_version(path: Path, version: int) -> None:
    if version > VERSION:
        raise UsageError(
            f"{path}: saved in format {version} by a newer version of Afterglow; "
            f"this one reads format {VERSION}",
            help="update Afterglow, or compile the model again with this version",
        )
    if version < VERSION:
        raise UsageError(
            f"{path}: saved in format {version} by an older version of Afterglow; "
            f"this one reads format {VERSION}",
            help="compile the model again with this version",
        )


def _damaged(path: Path, fault: str) -> UsageError:
    return UsageError(f"{path}: {fault}", help="copy the file again, or compile the model again")
