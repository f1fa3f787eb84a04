"""Survey of an object file: sizes, and the symbols that it needs from elsewhere."""

from __future__ import annotations

import struct

from afterglow.support.lazy_dataclass import dataclass

_ALLOCATE, _NO_BITS, _SYMBOL_TABLE = 2, 8, 2
_WIDE = ("<16xHHIQQQIHHHHHH", "<IIQQQQIIQQ", "<IBBHQQ")
_NARROW = ("<16xHHIIIIIHHHHHH", "<10I", "<IIIBBH")
"""The header, a section and a symbol, of 64 and of 32 bits."""


@dataclass(frozen=True)
class BundleSurvey:
    """Bytes that are there at run time, and the symbols that others must define."""

    size: int
    undefined: tuple[str, ...]


def survey(data: bytes) -> BundleSurvey | None:
    """The survey of an ELF object; None for other formats."""
    if data[:4] != b"\x7fELF" or data[5] != 1:
        return None
    is_wide = data[4] == 2
    header, section, symbol = _WIDE if is_wide else _NARROW
    fields = struct.unpack_from(header, data)
    start, count = fields[5], fields[11]
    size = struct.calcsize(section)
    rows = [struct.unpack_from(section, data, start + i * size) for i in range(count)]
    total = sum(row[5] for row in rows if row[2] & _ALLOCATE and row[1] != _NO_BITS)
    undefined: list[str] = []
    for row in rows:
        if row[1] == _SYMBOL_TABLE:
            strings = rows[row[6]]
            undefined += _undefined(data, row, strings[4], symbol, is_wide=is_wide)
    return BundleSurvey(total, tuple(sorted(undefined)))


def _undefined(
    data: bytes, table: tuple[int, ...], strings: int, symbol: str, *, is_wide: bool
) -> list[str]:
    names = []
    step = struct.calcsize(symbol)
    for place in range(table[4], table[4] + table[5], step):
        fields = struct.unpack_from(symbol, data, place)
        name, owner = fields[0], fields[3] if is_wide else fields[5]
        if owner == 0 and name:
            begin = strings + name
            names.append(data[begin : data.index(b"\0", begin)].decode())
    return names
