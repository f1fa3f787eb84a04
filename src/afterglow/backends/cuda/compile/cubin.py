"""What machine code says of itself: a cubin is an ELF file, with tables of facts about kernels."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from afterglow.support.lazy_dataclass import dataclass

_MAGIC = b"\x7fELF\x02\x01"
_HEADER = struct.Struct("<40xQ10xHHH")
"""Where the table of sections is, the bytes of an entry, their number, and that of the names."""
_SECTION = struct.Struct("<I20xQQ24x")
"""Of a section: the place of its name, where it is, and its bytes."""
_SYMBOL = struct.Struct("<I20x")
_FACT = struct.Struct("<BBH")
"""A format, what the fact is, and its value, or the bytes of the value that follows."""
_VALUE_FOLLOWS = 4
_REGISTERS, _FRAME, _PARAMETERS = 0x2F, 0x11, 0x19


@dataclass(frozen=True)
class CubinFacts:
    """What a cubin says of its kernel."""

    registers: int
    """Of each thread."""
    stack: int
    """Bytes of each thread in memory, for what its registers do not hold."""
    parameter_bytes: int


def facts_of(cubin: bytes, symbol: str) -> CubinFacts:
    """The facts of a kernel; `ValueError` if there is no such kernel in what should be a cubin."""
    try:
        sections = dict(_sections(cubin))
        index = _symbols(sections).index(symbol)
        own = dict(_facts(sections[f".nv.info.{symbol}"]))
        common = _facts(sections[".nv.info"])
    except (struct.error, LookupError, UnicodeDecodeError) as error:
        raise ValueError(f"no cubin with a kernel {symbol!r}") from error
    about = {
        fact: value
        for fact, data in common
        if isinstance(data, bytes) and len(data) == 8
        for place, value in [struct.unpack("<II", data)]
        if place == index
    }
    size = own.get(_PARAMETERS, 0)
    assert isinstance(size, int)
    return CubinFacts(about.get(_REGISTERS, 0), about.get(_FRAME, 0), size)


def _sections(cubin: bytes) -> Iterator[tuple[str, bytes]]:
    """The sections of an ELF file, by name."""
    if not cubin.startswith(_MAGIC):
        raise LookupError("not an ELF file")
    table, size, count, names_at = _HEADER.unpack_from(cubin)
    entries = [_SECTION.unpack_from(cubin, table + index * size) for index in range(count)]
    names = _data(cubin, *entries[names_at][1:])
    for name, offset, length in entries:
        yield _text(names, name), _data(cubin, offset, length)


def _symbols(sections: dict[str, bytes]) -> list[str]:
    """The names of all symbols, in their order."""
    table, names = sections[".symtab"], sections[".strtab"]
    return [_text(names, name) for (name,) in _SYMBOL.iter_unpack(table)]


def _facts(table: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The facts of a table: numbers, or bytes."""
    place = 0
    while place < len(table):
        kind, fact, value = _FACT.unpack_from(table, place)
        place += _FACT.size
        if kind == _VALUE_FOLLOWS:
            yield fact, table[place : place + value]
            place += value
        else:
            yield fact, value


def _data(file: bytes, offset: int, length: int) -> bytes:
    return file[offset : offset + length]


def _text(names: bytes, place: int) -> str:
    return names[place : names.index(b"\0", place)].decode()
