"""Linking: what is laid out where, whose symbol is whose, and what is refused."""

from __future__ import annotations

import struct

import pytest

from afterglow.backends.cpu import Target
from afterglow.backends.cpu.link import link
from afterglow.runtime.native.image import Image
from afterglow.support.errors import CompileError, UnsupportedError, UsageError
from tests.backends.cpu.link.samples import (
    AARCH64,
    CALLER,
    COUNTER,
    IMPORTER,
    SWITCH,
    TABLE_OF_FUNCTIONS,
    build,
    constant,
)

X86 = Target.of("x86-64-v3")


def message(objects: list[bytes], exports: list[str]) -> str:
    with pytest.raises((CompileError, UnsupportedError)) as caught:
        link(objects, exports)
    return caught.value.what


def test_parts_begin_at_pages_and_zeros_are_not_stored() -> None:
    image = link([build(COUNTER, X86), build(constant("first", 5), X86)], ["count", "first"])
    assert image.symbols["count"] == 0
    assert image.constants == 4096
    assert image.writable == 8192
    assert len(image.code) < image.size
    assert image.size - image.writable >= 64 * 8 + 8


def test_text_alone_has_no_other_parts() -> None:
    image = link([build("define void @f() nounwind { ret void }", X86)], ["f"])
    assert image.code == b"\xc3"
    assert image.size == image.constants == image.writable == 4096


def test_functions_have_names_of_their_own() -> None:
    objects = [build(constant(name, 1), X86) for name in ("first", "second", "inner_1")]
    image = link(objects, ["first", "second", "inner_1"])
    assert list(image.symbols) == ["inner", "first", "inner_2", "second", "inner_3", "inner_1"]
    assert list(image.symbols.values()) == sorted(image.symbols.values())
    assert all(size > 0 for size in image.sizes.values())


def test_the_same_objects_give_the_same_image() -> None:
    objects = [build(COUNTER, X86), build(IMPORTER, X86)]
    assert link(objects, [], ["outside"]).to_bytes() == link(objects, [], ["outside"]).to_bytes()


@pytest.mark.parametrize("target", [X86, AARCH64], ids=str)
def test_an_image_survives_storing(target: Target) -> None:
    image = link([build(COUNTER, target), build(IMPORTER, target)], ["count"], ["outside"])
    assert Image.from_bytes(image.to_bytes()) == image
    assert Image.of(image.describe(), image.code) == image
    assert set(image.imports) == {"outside", "memcpy"}


@pytest.mark.parametrize("data", [b"", b"what?", bytes(100), b"{}" + struct.pack("<Q", 2)])
def test_what_is_no_image_is_refused(data: bytes) -> None:
    with pytest.raises(UsageError, match=r"bytes are not a code image"):
        Image.from_bytes(data)


def test_what_nobody_defines_is_named() -> None:
    what = message([build(CALLER, X86)], ["both"])
    assert what == "no object file defines 'first', 'second'"


def test_a_function_defined_twice_is_refused() -> None:
    twice = [build(constant("f", 1), X86), build(constant("f", 2), X86)]
    assert message(twice, ["f"]) == "two object files define 'f'"


def test_exports_must_be_functions_that_are_seen() -> None:
    objects = [build(constant("f", 1), X86), build(COUNTER, X86)]
    for name in ("inner", "limit", "nothing"):
        what = message(objects, ["f", name])
        assert what == f"no object file defines the function '{name}' to export"


def test_of_weak_definitions_one_is_kept() -> None:
    weak = "define weak i64 @first() nounwind { ret i64 9 }"
    caller, strong = build(CALLER, X86), build(constant("first", 5), X86)
    objects = [build(weak, X86), build(weak, X86), strong, build(constant("second", 1), X86)]
    image = link([*objects, caller], ["both"])
    assert image.sizes["first"] == link([strong], ["first"]).sizes["first"]


def test_only_elf_files_of_known_machines_are_linked() -> None:
    mach_o = build("define void @f() { ret void }", Target.of("arm64-apple-macos+generic"))
    assert message([mach_o], ["f"]) == (
        "only ELF object files can be linked into an image, and this one begins with cf fa ed fe"
    )
    small = build("define void @f() { ret void }", Target.of("cortex-m4"))
    assert message([small], ["f"]) == ("only object files of 64 bits, little endian, can be linked")
    other = build("define void @f() { ret void }", Target.of("riscv64"))
    assert message([other], ["f"]) == (
        "code for machine 243 cannot be linked into an image: only x86, aarch64 can"
    )


def test_machines_are_not_mixed() -> None:
    text = "define void @f() { ret void }"
    assert message([build(text, X86), build(text, AARCH64)], ["f"]) == (
        "the object files are for different machines: x86 and aarch64"
    )
    assert message([], []) == "there is no object file to link"


def test_malformed_objects_are_refused() -> None:
    whole = build(constant("f", 1), X86)
    for size in (20, 64, len(whole) // 2, len(whole) - 1):
        assert message([whole[:size]], ["f"]).startswith("the object file is malformed: ")


def test_thread_local_data_is_refused() -> None:
    text = "@x = thread_local global i64 1 define void @f() nounwind { ret void }"
    assert message([build(text, X86)], ["f"]) == (
        "an image holds no thread-local data, such as section .tdata"
    )


class Arm:
    """Reads the few instructions that refer to other places."""

    def __init__(self, image: Image) -> None:
        self.code = bytes(image.code) + bytes(image.size - len(image.code))

    def word(self, at: int) -> int:
        return int(struct.unpack_from("<I", self.code, at)[0])

    def call(self, at: int) -> int:
        word = self.word(at)
        assert word >> 26 in (0b100101, 0b000101)  # bl, b
        return at + 4 * signed(word & 0x3FFFFFF, 26)

    def page(self, at: int) -> int:
        word = self.word(at)
        assert word & 0x9F000000 == 0x90000000  # adrp
        pages = signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
        return (at & ~0xFFF) + 4096 * pages

    def added(self, at: int) -> int:
        word = self.word(at)
        assert word & 0xFFC00000 == 0x91000000  # add
        return word >> 10 & 0xFFF

    def loaded(self, at: int) -> int:
        word = self.word(at)
        assert word & 0xFFC00000 == 0xF9400000  # ldr of 64 bits
        return 8 * (word >> 10 & 0xFFF)

    def find(self, name: int, mask: int, pattern: int) -> int:
        return next(at for at in range(name, len(self.code), 4) if self.word(at) & mask == pattern)


def signed(number: int, bits: int) -> int:
    return number - (1 << bits) if number >> (bits - 1) else number


CALL, ADRP, ADD, LOAD = (
    (0xFC000000, 0x94000000),
    (0x9F000000, 0x90000000),
    (0xFFC00000, 0x91000000),
    (0xFFC00000, 0xF9400000),
)


def test_arm_calls_reach_functions_of_other_files() -> None:
    objects = [build(text, AARCH64) for text in (constant("first", 5), CALLER)]
    image = link([*objects, build(constant("second", 6), AARCH64)], ["both"])
    arm = Arm(image)
    first = arm.find(image.symbols["both"], *CALL)
    assert arm.call(first) == image.symbols["first"]
    assert arm.call(arm.find(first + 4, *CALL)) == image.symbols["second"]


def test_arm_addresses_of_tables() -> None:
    objects = [build(constant(name, number), AARCH64) for name, number in (("a", 55), ("b", 66))]
    image = link(objects, ["a", "b"])
    arm = Arm(image)
    for inner, number in (("inner", 55), ("inner_1", 66)):
        page = arm.find(image.symbols[inner], *ADRP)
        table = arm.page(page) + arm.added(arm.find(page, *ADD))
        assert table >= image.constants
        assert struct.unpack_from("<4q", arm.code, table) == (0, 1, number, 3)


def test_arm_stubs_jump_through_slots() -> None:
    image = link([build(IMPORTER, AARCH64)], ["call"], ["outside"])
    arm, slots = Arm(image), image.imports
    stub = arm.call(arm.find(image.symbols["call"], *CALL))
    assert stub < image.constants
    assert (arm.page(stub) + arm.loaded(stub + 4),) == slots["outside"]
    assert arm.word(stub + 4) & 0x3FF == 16 << 5 | 16  # x16, from x16
    assert arm.word(stub + 8) == 0xD61F0200  # br x16
    address = arm.find(image.symbols["address"], *ADRP)
    assert (arm.page(address) + arm.loaded(arm.find(address, *LOAD)),) == slots["outside"]


def test_arm_data_is_reached_by_scaled_offsets() -> None:
    image = link([build(COUNTER, AARCH64)], ["count"])
    arm = Arm(image)
    (slot,) = image.pointers
    limit = int(struct.unpack_from("<q", arm.code, slot)[0])
    assert struct.unpack_from("<q", arm.code, limit) == (100,)
    at = image.symbols["count"]
    loads = [w for w in range(at, at + image.sizes["count"], 4) if arm.word(w) >> 22 == 0x3E5]
    pages = [w for w in range(at, at + image.sizes["count"], 4) if arm.word(w) >> 24 & 0x9F == 0x90]
    reached = {arm.page(p) + arm.loaded(w) for p in pages for w in loads}
    assert slot in reached
    assert {struct.unpack_from("<q", arm.code, a)[0] for a in reached} >= {3, 0, limit}


def test_arm_tables_of_functions() -> None:
    objects = [build(text, AARCH64) for text in (SWITCH, TABLE_OF_FUNCTIONS)]
    image = link(objects, ["switch", "choose"], ["outside"])
    arm = Arm(image)
    held = [int(struct.unpack_from("<q", arm.code, word)[0]) for word in image.pointers]
    assert held == [image.symbols["one"], image.symbols["choose"]]
    table = image.pointers[0]
    assert table + 8 in image.imports["outside"]
    assert image.constants <= table < image.writable
