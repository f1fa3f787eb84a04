"""Relocations: how the address of a symbol is encoded in the instructions that refer to it.

A relocation takes the place it changes and the place it refers to, many at once as arrays, both
as offsets in the image. The names are those of the ABIs of x86-64 and of Arm's 64-bit architecture.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from afterglow.support.errors import CompileError, UnsupportedError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

Writer: TypeAlias = Callable[[Array, Array, Array], None]
"""Writes into code (bytes), at places, references to targets."""


@dataclass(frozen=True)
class Relocation:
    """A kind of relocation."""

    name: str
    write: Writer
    through_slot: bool = False
    """Whether it refers to a word that holds the symbol's address, rather than to the symbol."""
    is_pointer: bool = False
    """Whether it needs an absolute address, which is known only when the image is loaded."""


@dataclass(frozen=True)
class LinkTarget:
    """Facts about an architecture that linking needs."""

    name: str
    page: int
    """The largest size of pages that its systems use."""
    relocations: dict[int, Relocation]
    stub: bytes
    """Code that jumps to where a slot points."""
    stub_relocations: tuple[tuple[int, int, int], ...]
    """The stub's references to its slot: offset, kind, addend."""

    def relocation(self, kind: int) -> Relocation:
        """The relocation of a number."""
        if kind not in self.relocations:
            raise CompileError(
                f"the code cannot be linked into an image: relocation {kind} of {self.name} is "
                f"not known",
                help="compile it as independent of its position, with the small code model",
            )
        return self.relocations[kind]


def machine_of(number: int) -> LinkTarget:
    """The architecture by its number in object files."""
    if number not in _MACHINES:
        known = ", ".join(machine.name for machine in _MACHINES.values())
        raise UnsupportedError(
            f"code for machine {number} cannot be linked into an image: only {known} can"
        )
    return _MACHINES[number]


def _check_range(distance: Array, bits: int) -> None:
    limit = 1 << (bits - 1)
    if ((distance < -limit) | (distance >= limit)).any():
        raise CompileError(f"the image is too large: a reference must reach over {limit:,} bytes")


def _put(code: Array, place: Array, values: Array) -> None:
    """Write whole numbers at places of any alignment."""
    size = values.dtype.itemsize
    code[place[:, None] + np.arange(size)] = values.view(np.uint8).reshape(-1, size)


def write_word(code: Array, place: Array, target: Array) -> None:
    """Write the targets themselves, as words."""
    _put(code, place, target.astype("<i8"))


def _write_distance64(code: Array, place: Array, target: Array) -> None:
    _put(code, place, (target - place).astype("<i8"))


def _write_distance32(code: Array, place: Array, target: Array) -> None:
    _check_range(target - place, 32)
    _put(code, place, (target - place).astype("<i4"))


def _add_bits(code: Array, place: Array, bits: Array) -> None:
    """Fill a field of instructions of 32 bits; it is zero before."""
    words = np.ascontiguousarray(code[place[:, None] + np.arange(4)]).view("<u4").reshape(-1)
    _put(code, place, words | bits.astype("<u4"))


def _branch(bits: int, shift: int) -> Writer:
    """A distance in instructions, in a field of a number of bits."""

    def write(code: Array, place: Array, target: Array) -> None:
        _check_range(target - place, bits + 2)
        _add_bits(code, place, (((target - place) >> 2) & ((1 << bits) - 1)) << shift)

    return write


def _low_bits(scale: int) -> Writer:
    """Where the target lies in its page, in units of 2 ** scale bytes."""

    def write(code: Array, place: Array, target: Array) -> None:
        _add_bits(code, place, ((target & 0xFFF) >> scale) << 10)

    return write


def _split_distance(code: Array, place: Array, distance: Array) -> None:
    """A distance in the two fields of the instructions `adr` and `adrp`."""
    _check_range(distance, 21)
    _add_bits(code, place, ((distance & 3) << 29) | (((distance >> 2) & 0x7FFFF) << 5))


def _write_near(code: Array, place: Array, target: Array) -> None:
    _split_distance(code, place, target - place)


def _write_page(code: Array, place: Array, target: Array) -> None:
    _split_distance(code, place, (target >> 12) - (place >> 12))


_X86 = LinkTarget(
    name="x86",
    page=1 << 12,
    relocations={
        1: Relocation("R_X86_64_64", write_word, is_pointer=True),
        2: Relocation("R_X86_64_PC32", _write_distance32),
        4: Relocation("R_X86_64_PLT32", _write_distance32),
        9: Relocation("R_X86_64_GOTPCREL", _write_distance32, through_slot=True),
        24: Relocation("R_X86_64_PC64", _write_distance64),
        41: Relocation("R_X86_64_GOTPCRELX", _write_distance32, through_slot=True),
        42: Relocation("R_X86_64_REX_GOTPCRELX", _write_distance32, through_slot=True),
    },
    stub=bytes.fromhex("ff2500000000") + b"\xcc" * 10,  # jmp *slot(%rip)
    stub_relocations=((2, 2, -4),),
)

_AARCH64 = LinkTarget(
    name="aarch64",
    page=1 << 16,
    relocations={
        257: Relocation("R_AARCH64_ABS64", write_word, is_pointer=True),
        260: Relocation("R_AARCH64_PREL64", _write_distance64),
        261: Relocation("R_AARCH64_PREL32", _write_distance32),
        273: Relocation("R_AARCH64_LD_PREL_LO19", _branch(19, 5)),
        274: Relocation("R_AARCH64_ADR_PREL_LO21", _write_near),
        275: Relocation("R_AARCH64_ADR_PREL_PG_HI21", _write_page),
        277: Relocation("R_AARCH64_ADD_ABS_LO12_NC", _low_bits(0)),
        278: Relocation("R_AARCH64_LDST8_ABS_LO12_NC", _low_bits(0)),
        279: Relocation("R_AARCH64_TSTBR14", _branch(14, 5)),
        280: Relocation("R_AARCH64_CONDBR19", _branch(19, 5)),
        282: Relocation("R_AARCH64_JUMP26", _branch(26, 0)),
        283: Relocation("R_AARCH64_CALL26", _branch(26, 0)),
        284: Relocation("R_AARCH64_LDST16_ABS_LO12_NC", _low_bits(1)),
        285: Relocation("R_AARCH64_LDST32_ABS_LO12_NC", _low_bits(2)),
        286: Relocation("R_AARCH64_LDST64_ABS_LO12_NC", _low_bits(3)),
        299: Relocation("R_AARCH64_LDST128_ABS_LO12_NC", _low_bits(4)),
        311: Relocation("R_AARCH64_ADR_GOT_PAGE", _write_page, through_slot=True),
        312: Relocation("R_AARCH64_LD64_GOT_LO12_NC", _low_bits(3), through_slot=True),
    },
    stub=bytes.fromhex("10000090 100240f9 00021fd6 1f2003d5"),  # adrp, ldr, br x16; nop
    stub_relocations=((0, 275, 0), (4, 286, 0)),
)

_MACHINES = {62: _X86, 183: _AARCH64}
"""By their numbers in object files."""
