"""Relocations write what the architectures' manuals say, as far as they reach."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from afterglow.backends.cpu.link.relocate import machine_of
from afterglow.support.errors import CompileError

X86, AARCH64 = 62, 183
PLACE = 0x20010

B, BL, B_EQ, TBZ = 0x14000000, 0x94000000, 0x54000000, 0x36000000
ADR, ADRP, ADD = 0x10000010, 0x90000010, 0x91000210
LDR_LITERAL, LDRB, LDRH, LDR_W, LDR_X, LDR_Q = (
    0x58000010,
    0x39400210,
    0x79400210,
    0xB9400210,
    0xF9400210,
    0x3DC00210,
)


def relocate(machine: int, kind: int, instruction: int, target: int) -> int:
    """The instruction at PLACE once it refers to a target."""
    code = np.zeros(PLACE + 4, np.uint8)
    code[PLACE:] = np.frombuffer(struct.pack("<I", instruction), np.uint8)
    machine_of(machine).relocation(kind).write(code, np.array([PLACE]), np.array([target]))
    return int(code[PLACE:].view("<u4")[0])


@pytest.mark.parametrize(
    ("kind", "instruction", "target", "expected"),
    [
        (282, B, PLACE + 8, 0x14000002),
        (283, BL, PLACE - 4, 0x97FFFFFF),
        (280, B_EQ, PLACE - 4, 0x54FFFFE0),
        (279, TBZ, PLACE + 8, 0x36000040),
        (273, LDR_LITERAL, PLACE + 16, 0x58000090),
        (274, ADR, PLACE + 5, 0x30000030),
        (275, ADRP, 0x23FFF, 0xF0000010),
        (275, ADRP, 0x1F123, 0xF0FFFFF0),
        (311, ADRP, 0x21000, 0xB0000010),
        (277, ADD, 0x21ABC, 0x912AF210),
        (278, LDRB, 0x21ABD, 0x396AF610),
        (284, LDRH, 0x21002, 0x79400610),
        (285, LDR_W, 0x21008, 0xB9400A10),
        (286, LDR_X, 0x21FF8, 0xF947FE10),
        (312, LDR_X, 0x21010, 0xF9400A10),
        (299, LDR_Q, 0x21020, 0x3DC00A10),
        (261, 0, PLACE - 2, 0xFFFFFFFE),
    ],
)
def test_arm_instructions(kind: int, instruction: int, target: int, expected: int) -> None:
    assert f"{relocate(AARCH64, kind, instruction, target):08x}" == f"{expected:08x}"


@pytest.mark.parametrize(
    ("machine", "kind", "reach"),
    [
        (X86, 2, 1 << 31),
        (AARCH64, 283, 1 << 27),
        (AARCH64, 280, 1 << 20),
        (AARCH64, 279, 1 << 15),
        (AARCH64, 274, 1 << 20),
    ],
)
def test_references_reach_only_so_far(machine: int, kind: int, reach: int) -> None:
    relocate(machine, kind, 0, PLACE + reach - 4)
    relocate(machine, kind, 0, PLACE - reach)
    for target in (PLACE + reach, PLACE - reach - 4):
        with pytest.raises(CompileError, match="the image is too large"):
            relocate(machine, kind, 0, target)


def test_relocations_that_depend_on_the_position_are_refused() -> None:
    with pytest.raises(CompileError) as caught:
        machine_of(X86).relocation(11)
    assert caught.value.what == (
        "the code cannot be linked into an image: relocation 11 of x86 is not known"
    )
