"""A reader of ELF object files, as far as linking needs it.

The numbers are those of the System V ABI: https://refspecs.linuxfoundation.org/elf/gabi4+
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from afterglow.support.errors import CompileError, UnsupportedError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

WRITE, ALLOCATE, EXECUTE = 1, 2, 4
"""Flags of sections."""
FUNCTION = 2
"""The kind of symbols that name functions."""
LOCAL, GLOBAL, WEAK = 0, 1, 2
"""How far symbols are seen."""

_SYMBOL_TABLE, _RELOCATIONS, _NO_BITS, _UNWINDING = 2, 4, 8, 0x70000001
_UNDEFINED = 0
_RELOCATABLE = 1

_HEADER = struct.Struct("<4sBB10xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL_FIELDS = np.dtype(
    {
        "names": ["name", "info", "other", "section", "value", "size"],
        "formats": ["<u4", "u1", "u1", "<u2", "<i8", "<i8"],
    }
)
_RELOCATION_FIELDS = np.dtype(
    [("offset", "<i8"), ("kind", "<u4"), ("symbol", "<u4"), ("addend", "<i8")]
)


@dataclass(frozen=True)
class Section:
    """A part of an object file that is there at run time."""

    name: str
    flags: int
    data: memoryview
    """Its bytes; empty if they are all zero."""
    size: int
    alignment: int

    @property
    def is_zero(self) -> bool:
        """Whether the file does not hold its bytes, because all are zero."""
        return len(self.data) < self.size


@dataclass(frozen=True)
class ObjectFile:
    """The contents of an object file. Arrays have a row for each symbol or relocation."""

    machine: int
    sections: dict[int, Section]
    """Those that are there at run time, by their number in the file."""
    section_count: int
    """How many sections the file has, of all kinds."""
    symbols: Array
    relocations: dict[int, Array]
    """By the number of the section that they change."""
    strings: bytes

    def name(self, symbol: int) -> str:
        """The name of a symbol."""
        return _string(self.strings, int(self.symbols["name"][symbol]))

    @property
    def bindings(self) -> Array:
        """How far each symbol is seen."""
        bindings: Array = self.symbols["info"] >> 4
        return bindings

    @property
    def kinds(self) -> Array:
        """What each symbol names."""
        kinds: Array = self.symbols["info"] & 15
        return kinds

    @property
    def defined(self) -> Array:
        """Which symbols this file defines, at a place in one of its sections."""
        sections = self.symbols["section"]
        defined: Array = (sections != _UNDEFINED) & (sections < self.section_count)
        return defined


def read_object(data: bytes) -> ObjectFile:
    """Read an object file."""
    if data[:4] != b"\x7fELF":
        raise UnsupportedError(
            f"only ELF object files can be linked into an image, and this one begins with "
            f"{data[:4].hex(' ')}",
            help="on systems with other object files, load the code with load_host",
        )
    if data[4:6] != b"\x02\x01":
        raise UnsupportedError("only object files of 64 bits, little endian, can be linked")
    try:
        return _read(memoryview(data))
    except (struct.error, ValueError, IndexError) as problem:
        raise CompileError(f"the object file is malformed: {problem}") from None


def _read(data: memoryview) -> ObjectFile:
    header = _HEADER.unpack_from(data)
    kind, machine, table, count, names_at = header[3], header[4], header[8], header[-2], header[-1]
    if kind != _RELOCATABLE:
        raise ValueError("it is linked already")
    rows = [_SECTION.unpack_from(data, table + i * _SECTION.size) for i in range(count)]
    names = bytes(_content(data, rows[names_at]))
    symbols, strings = np.zeros(0, _SYMBOL_FIELDS), b""
    relocations = {}
    for row in rows:
        if row[1] == _SYMBOL_TABLE:
            symbols = np.frombuffer(_content(data, row), _SYMBOL_FIELDS)
            strings = bytes(_content(data, rows[row[6]]))
        elif row[1] == _RELOCATIONS:
            relocations[row[7]] = np.frombuffer(_content(data, row), _RELOCATION_FIELDS)
    sections = dict(_sections(data, rows, names))
    kept = {number: rows for number, rows in relocations.items() if number in sections}
    return ObjectFile(machine, sections, len(rows), symbols, kept, strings)


def _sections(
    data: memoryview, rows: list[tuple[Any, ...]], names: bytes
) -> Iterator[tuple[int, Section]]:
    """Those that are there at run time; not what unwinding needs, for nothing is thrown."""
    for number, row in enumerate(rows):
        name = _string(names, row[0])
        if row[2] & ALLOCATE and row[1] != _UNWINDING and name != ".eh_frame":
            yield number, Section(name, row[2], _content(data, row), row[5], max(row[8], 1))


def _content(data: memoryview, row: tuple[Any, ...]) -> memoryview:
    if row[1] == _NO_BITS:
        return data[:0]
    start, size = row[4], row[5]
    if start + size > len(data):
        raise ValueError(f"it has {len(data)} bytes, and a section ends at {start + size}")
    return data[start : start + size]


def _string(strings: bytes, start: int) -> str:
    return strings[start : strings.index(b"\0", start)].decode()
