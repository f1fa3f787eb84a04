"""The linker: from object files to one position-independent image."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from afterglow.backends.cpu.link.elf import EXECUTE, WRITE, ObjectFile, Section, read_object
from afterglow.backends.cpu.link.merge import ABSENT, Merged, merge
from afterglow.backends.cpu.link.relocate import LinkTarget, Relocation, machine_of, write_word
from afterglow.runtime.native.convention import C_LIBRARY
from afterglow.runtime.native.image import Image
from afterglow.support.errors import CompileError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.names import NameScope
from afterglow.types import Array

_LARGEST = 1 << 31
_WORD = 8
_TEXT, _CONSTANTS, _CONSTANT_POINTERS, _DATA, _ZEROS = range(5)
_THREAD_LOCAL = 1 << 10


def link(objects: Sequence[bytes], exports: Sequence[str], imports: Collection[str] = ()) -> Image:
    """One image of object files, which must define the functions to export.

    Functions that none of them defines must be among the imports, whose addresses are given when
    the image is loaded, or be of those few of the C library that LLVM calls by itself.
    """
    files = [read_object(data) for data in objects]
    machine = _common_machine(files)
    merged = merge(files, {*C_LIBRARY, *imports})
    _check_exports(merged, exports)
    linking = _Linking(machine, merged)
    linking.write_sections()
    linking.write_stubs()
    linking.write_slots()
    linking.write_references()
    return linking.image()


def _common_machine(files: Sequence[ObjectFile]) -> LinkTarget:
    numbers = sorted({file.machine for file in files})
    if not numbers:
        raise CompileError("there is no object file to link")
    if len(numbers) > 1:
        names = " and ".join(machine_of(number).name for number in numbers)
        raise CompileError(f"the object files are for different machines: {names}")
    return machine_of(numbers[0])


def _check_exports(merged: Merged, exports: Sequence[str]) -> None:
    functions = {symbol for _, symbol, _ in merged.functions}
    for name in exports:
        if merged.exported.get(name) not in functions:
            raise CompileError(f"no object file defines the function '{name}' to export")


@dataclass(frozen=True)
class _Layout:
    """Where everything lies in the image."""

    sections: Array
    stubs: int
    slots: int
    constants: int
    writable: int
    stored: int
    """Where the zeros at the end begin, which are not stored."""
    size: int


def _part(section: Section) -> int:
    """The part of the image that a section belongs to."""
    if section.flags & _THREAD_LOCAL:
        raise CompileError(f"an image holds no thread-local data, such as section {section.name}")
    if section.flags & EXECUTE:
        return _TEXT
    if not section.flags & WRITE:
        return _CONSTANTS
    if section.name.startswith(".data.rel.ro"):
        return _CONSTANT_POINTERS
    return _ZEROS if section.is_zero else _DATA


def _lay_out(sections: Sequence[Section], machine: LinkTarget, stubs: int, slots: int) -> _Layout:
    """Parts one after the other, sections of a part in their order."""
    places = np.zeros(len(sections), np.int64)
    parts = [_part(section) for section in sections]

    def place(part: int, at: int) -> int:
        for number in np.flatnonzero(np.array(parts) == part).tolist():
            at = _round_up(at, sections[number].alignment)
            places[number] = at
            at += sections[number].size
        return at

    stubs_at = _round_up(place(_TEXT, 0), len(machine.stub))
    constants = _round_up(stubs_at + stubs * len(machine.stub), machine.page)
    # pointers and slots are neighbours: filling them touches as few pages as can be
    slots_at = _round_up(place(_CONSTANT_POINTERS, place(_CONSTANTS, constants)), _WORD)
    writable = _round_up(slots_at + slots * _WORD, machine.page)
    stored = place(_DATA, writable)
    size = place(_ZEROS, stored)
    if size > _LARGEST:
        raise CompileError(f"the image is too large: {size:,} bytes")
    return _Layout(places, stubs_at, slots_at, constants, writable, stored, size)


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _distinct(numbers: Array) -> list[int]:
    """Each number once, in order: `numpy.unique` would import masked arrays first."""
    return sorted(set(numbers.tolist()))


class _Linking:
    """The image while it is being written."""

    def __init__(self, machine: LinkTarget, merged: Merged) -> None:
        self.machine = machine
        self.merged = merged
        self.imported = list(merged.imported.values())
        self.slotted = self._slotted_symbols()
        self.layout = _lay_out(merged.sections, machine, len(self.imported), len(self.slotted))
        self.code = np.zeros(self.layout.stored, np.uint8)
        self.address = self._addresses()
        self.pointers: list[int] = []
        self.imports: dict[str, list[int]] = {name: [] for name in merged.imported}

    def _slotted_symbols(self) -> list[int]:
        """Symbols in the table of addresses: imports, and symbols that code loads from it."""
        kinds = [k for k, relocation in self._kinds() if relocation.through_slot]
        through_slots = _distinct(self.merged.target[np.isin(self.merged.kind, kinds)])
        return [*self.imported, *(s for s in through_slots if s not in self.imported)]

    def _kinds(self) -> Iterator[tuple[int, Relocation]]:
        for kind in _distinct(self.merged.kind):
            yield kind, self.machine.relocation(kind)

    def _addresses(self) -> Array:
        """Where each symbol lies; an imported function is at its stub."""
        merged, layout = self.merged, self.layout
        starts = np.append(layout.sections, 0)  # the last is that of absent symbols
        address: Array = starts[merged.symbol_section] + merged.symbol_value
        stub_size = len(self.machine.stub)
        address[self.imported] = layout.stubs + stub_size * np.arange(len(self.imported))
        return address

    def write_sections(self) -> None:
        """Copy what the files hold."""
        for section, at in zip(self.merged.sections, self.layout.sections.tolist(), strict=True):
            self.code[at : at + len(section.data)] = np.frombuffer(section.data, np.uint8)

    def write_stubs(self) -> None:
        """A jump through its slot for each imported function."""
        stub = np.frombuffer(self.machine.stub, np.uint8)
        for number in range(len(self.imported)):
            at = self.layout.stubs + number * len(stub)
            slot = self.layout.slots + number * _WORD
            self.code[at : at + len(stub)] = stub
            for offset, kind, addend in self.machine.stub_relocations:
                write = self.machine.relocation(kind).write
                write(self.code, np.array([at + offset]), np.array([slot + addend]))

    def write_slots(self) -> None:
        """Words that hold addresses of symbols."""
        places = self.layout.slots + _WORD * np.arange(len(self.slotted))
        self._write_pointers(places, np.array(self.slotted, np.int64), np.zeros_like(places))

    def write_references(self) -> None:
        """Apply the relocations, all of a kind at once."""
        merged = self.merged
        self._check_targets()
        slot = np.zeros(len(merged.definition), np.int64)
        slot[self.slotted] = self.layout.slots + _WORD * np.arange(len(self.slotted))
        places = self.layout.sections[merged.place_section] + merged.place_offset
        for kind, relocation in self._kinds():
            chosen = merged.kind == kind
            place, target, addend = places[chosen], merged.target[chosen], merged.addend[chosen]
            if relocation.is_pointer:
                self._write_pointers(place, target, addend)
            else:
                towards = slot if relocation.through_slot else self.address
                relocation.write(self.code, place, towards[target] + addend)

    def _check_targets(self) -> None:
        sections = self.merged.symbol_section[self.merged.target]
        if ((sections == ABSENT) & ~np.isin(self.merged.target, self.imported)).any():
            raise CompileError("the code refers to a symbol that no section of its file holds")

    def _write_pointers(self, place: Array, target: Array, addend: Array) -> None:
        """Write what an address is added to when the image is loaded, and note where."""
        if (place < self.layout.constants).any():
            raise CompileError("the text holds an address, so it depends on its position")
        names = {symbol: name for name, symbol in self.merged.imported.items()}
        for at, symbol in zip(place.tolist(), target.tolist(), strict=True):
            words = self.imports[names[symbol]] if symbol in names else self.pointers
            words.append(at)
        inside = np.where(np.isin(target, self.imported), 0, self.address[target])
        write_word(self.code, place, inside + addend)

    def image(self) -> Image:
        """What was written."""
        functions = self._named_functions()
        return Image(
            machine=self.machine.name,
            code=self.code.tobytes().rstrip(b"\0"),
            constants=self.layout.constants,
            writable=self.layout.writable,
            size=self.layout.size,
            symbols={name: at for at, name, _ in functions},
            sizes={name: size for _, name, size in functions},
            pointers=tuple(self.pointers),
            imports={name: tuple(words) for name, words in self.imports.items()},
        )

    def _named_functions(self) -> list[tuple[int, str, int]]:
        """Functions in order, each with a name of its own; those that all files see keep theirs."""
        seen = {symbol: name for name, symbol in self.merged.exported.items()}
        names = NameScope()
        for name in seen.values():
            names.claim(name)
        return sorted(
            (int(self.address[symbol]), seen.get(symbol) or names.claim(name), size)
            for name, symbol, size in self.merged.functions
        )
