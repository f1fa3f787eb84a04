"""Shared libraries without the tables that only processors of other kinds need.

LLVM's library has instruction tables of every processor. Those of others are read only when code
for them is generated; blanked, they compress to nothing. Functions stay as they are.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

OTHERS = re.compile(
    r"\d(AMDGPU|AArch64|RISCV|Hexagon|SystemZ|PPC|Mips|NVPTX|Sparc|Lanai|MSP430|XCore|AVR|BPF"
    r"|WebAssembly|LoongArch|ARM|SPIRV|R600)"
)
"""In the mangled name of something of another processor; a digit, its length, comes before."""
LEAST = 256
"""Bytes of a table that is worth it."""


class Section(NamedTuple):
    """A section header, as the file has it."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


def without_other_tables(library: bytes) -> bytes:
    """The library with blanks for other processors' tables; as it is if it has no symbols."""
    blanked = bytearray(library)
    for offset, size in _tables(library):
        blanked[offset : offset + size] = bytes(size)
    return bytes(blanked)


def _tables(library: bytes) -> Iterator[tuple[int, int]]:
    """Where tables of other processors are, and their bytes."""
    (start,), (count, names) = (
        struct.unpack_from("<Q", library, 40),
        struct.unpack_from("<HH", library, 60),
    )
    sections = [
        Section(*struct.unpack_from("<IIQQQQIIQQ", library, start + 64 * place))
        for place in range(count)
    ]
    called = {_text(library, sections[names].offset + each.name): each for each in sections}
    if not {".symtab", ".strtab", ".rodata"} <= called.keys():
        return
    symbols, texts, constants = called[".symtab"], called[".strtab"], called[".rodata"]
    for place in range(symbols.offset, symbols.offset + symbols.size, 24):
        name, _, _, section, address, size = struct.unpack_from("<IBBHQQ", library, place)
        inside = size >= LEAST and section < count and sections[section] is constants
        if inside and OTHERS.search(_text(library, texts.offset + name)):
            yield constants.offset + address - constants.address, size


def _text(library: bytes, offset: int) -> str:
    return library[offset : library.index(0, offset)].decode()
