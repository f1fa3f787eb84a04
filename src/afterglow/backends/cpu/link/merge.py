"""Merging of object files: sections, symbols and relocations, numbered consecutively."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate

import numpy as np

from afterglow.backends.cpu.link.elf import FUNCTION, LOCAL, WEAK, ObjectFile, Section
from afterglow.support.errors import CompileError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

ABSENT = -1
"""The section of symbols that no section holds."""


@dataclass(frozen=True)
class Merged:
    """All sections, symbols and relocations. Arrays have an entry for each of them."""

    sections: list[Section]
    symbol_section: Array
    """Where symbols lie: the section, and the offset in it."""
    symbol_value: Array
    functions: list[tuple[str, int, int]]
    """Functions: name, symbol and size. Local ones may have the same name."""
    definition: Array
    """For each symbol, the one that defines it: itself, if it is local."""
    exported: dict[str, int]
    """The symbols that define what all files can see, by name."""
    imported: dict[str, int]
    """A symbol for each function from outside, by name."""
    place_section: Array
    """Where relocations apply: the section, and the offset in it."""
    place_offset: Array
    kind: Array
    target: Array
    """The symbols that relocations refer to, by their definitions."""
    addend: Array


def merge(files: Sequence[ObjectFile], imports: Collection[str]) -> Merged:
    """Put files side by side, and find the definition of each symbol.

    What no file defines must be among the imports.
    """
    first_symbol = [0, *accumulate(len(file.symbols) for file in files)]
    first_section = [0, *accumulate(len(file.sections) for file in files)]
    numbers = [
        _section_numbers(file, first) for file, first in zip(files, first_section, strict=False)
    ]
    definition = np.arange(first_symbol[-1])
    exported, imported = _resolve(files, first_symbol, definition, imports)
    relocations = list(_relocations(files, first_symbol, numbers))
    place_section, place_offset, kind, symbol, addend = _columns(relocations)
    return Merged(
        sections=[section for file in files for section in file.sections.values()],
        symbol_section=_concatenate(
            table[np.where(file.defined, file.symbols["section"], 0)]
            for file, table in zip(files, numbers, strict=True)
        ),
        symbol_value=_concatenate(file.symbols["value"] for file in files),
        functions=list(_functions(files, first_symbol)),
        definition=definition,
        exported=exported,
        imported=imported,
        place_section=place_section,
        place_offset=place_offset,
        kind=kind,
        target=definition[symbol],
        addend=addend,
    )


def _section_numbers(file: ObjectFile, first: int) -> Array:
    """From a section's number in its file to its number among all; section 0 is never there."""
    table = np.full(file.section_count, ABSENT)
    table[list(file.sections)] = np.arange(first, first + len(file.sections))
    return table


def _resolve(
    files: Sequence[ObjectFile],
    first_symbol: list[int],
    definition: Array,
    imports: Collection[str],
) -> tuple[dict[str, int], dict[str, int]]:
    """Fill in the definitions; returns those of the files, and one symbol for each import."""
    mentions: dict[str, list[int]] = {}
    strong: dict[str, int] = {}
    weak: dict[str, int] = {}
    for file, first in zip(files, first_symbol, strict=False):
        bindings, defined = file.bindings.tolist(), file.defined.tolist()
        for symbol in np.flatnonzero(file.bindings != LOCAL).tolist():
            name = file.name(symbol)
            mentions.setdefault(name, []).append(first + symbol)
            if defined[symbol] and bindings[symbol] == WEAK:
                weak.setdefault(name, first + symbol)
            elif defined[symbol] and strong.setdefault(name, first + symbol) != first + symbol:
                raise CompileError(f"two object files define '{name}'")
    exported = weak | strong
    imported = {name: symbols[0] for name, symbols in mentions.items() if name not in exported}
    _check_imports(imported, imports)
    found = exported | imported
    for name, symbols in mentions.items():
        definition[symbols] = found[name]
    return exported, imported


def _check_imports(imported: Collection[str], allowed: Collection[str]) -> None:
    missing = sorted(set(imported) - set(allowed))
    if missing:
        names = ", ".join(f"'{name}'" for name in missing)
        raise CompileError(
            f"no object file defines {names}", help="name functions from outside as imports"
        )


def _relocations(
    files: Sequence[ObjectFile], first_symbol: list[int], numbers: list[Array]
) -> Iterator[list[Array]]:
    """Columns of the relocations, section by section: place, kind, symbol, addend."""
    for file, first, table in zip(files, first_symbol, numbers, strict=False):
        for section, rows in file.relocations.items():
            yield [
                np.full(len(rows), table[section]),
                rows["offset"],
                rows["kind"],
                rows["symbol"].astype(np.int64) + first,
                rows["addend"],
            ]


def _columns(tables: list[list[Array]]) -> list[Array]:
    empty = [np.zeros(0, np.int64)] * 5
    return [np.concatenate(parts) for parts in zip(empty, *tables, strict=True)]


def _concatenate(parts: Iterator[Array]) -> Array:
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _functions(
    files: Sequence[ObjectFile], first_symbol: list[int]
) -> Iterator[tuple[str, int, int]]:
    for file, first in zip(files, first_symbol, strict=False):
        for symbol in np.flatnonzero((file.kinds == FUNCTION) & file.defined).tolist():
            yield file.name(symbol), first + symbol, int(file.symbols["size"][symbol])
