"""A processor without a system, by Unicorn: code, memory and a stack, nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import unicorn
from unicorn import arm64_const as arm64
from unicorn import arm_const as arm
from unicorn import riscv_const as riscv

from afterglow.backends.cpu import Target
from tests.emulation.linking import BASE, link_flat

STACK, STACK_BYTES = 0x1000_0000, 64 << 10
"""Where the stack lies. There is nothing around it: what grows too far stops the emulator."""
MEMORY = 0x2000_0000
"""Where memory for the program's data begins."""
PAGE = 4096
STOP = 0xF000
"""The address that functions return to."""
UNTOUCHED = 0xA5
"""What is on the stack before anything uses it."""
GAP = 256
"""Bytes between pieces of memory, which nobody may touch."""


class BareMachine:
    """Runs functions of a program as firmware does: with its own memory, in one thread."""

    def __init__(self, objects: Sequence[bytes], exports: Sequence[str], target: Target) -> None:
        self.target = target
        self.program = link_flat(objects, exports, target)
        self.instructions = 0
        self.misaligned: list[tuple[int, int]] = []
        """Address and size of each access that a small processor would refuse."""
        self._top = MEMORY
        self._mapped = MEMORY
        self._lengths: dict[tuple[int, int], int] = {}
        self._uc = _processor(target)
        self._uc.mem_map(STOP & ~(PAGE - 1), PAGE)
        self._uc.mem_map(BASE, _pages(len(self.program.memory)))
        self._uc.mem_write(BASE, self.program.memory)
        self._uc.mem_map(STACK - STACK_BYTES, STACK_BYTES)
        self._uc.mem_write(STACK - STACK_BYTES, bytes([UNTOUCHED]) * STACK_BYTES)
        self._uc.hook_add(unicorn.UC_HOOK_BLOCK, self._count)

    def watch(self) -> None:
        """Note from now on which accesses are misaligned, on RISC-V, where they may be refused.

        Arm allows them, and Unicorn loses the state of IT blocks when it watches memory.
        """
        if self.target.architecture.startswith("riscv"):
            self._uc.hook_add(unicorn.UC_HOOK_MEM_READ | unicorn.UC_HOOK_MEM_WRITE, self._note)

    def allocate(self, size: int, align: int = 64) -> int:
        """Memory of its own, all bytes 0xFF; its address."""
        address = -(-self._top // align) * align
        self._top = address + size + GAP
        if self._top > self._mapped:
            more = _pages(self._top - self._mapped)
            self._uc.mem_map(self._mapped, more)
            self._mapped += more
        self.write(address, b"\xff" * size)
        return address

    def write(self, address: int, data: bytes) -> None:
        """Put bytes into memory."""
        self._uc.mem_write(address, data)

    def read(self, address: int, size: int) -> bytes:
        """Bytes from memory."""
        return bytes(self._uc.mem_read(address, size))

    def call(self, name: str, *arguments: int) -> int:
        """Call a function by its name and wait for its end; what it returns, as 32 bits."""
        convention = _CONVENTIONS[self.target.architecture]
        word = self.target.pointer_bits // 8
        given, rest = arguments[: len(convention.arguments)], arguments[len(convention.arguments) :]
        stack = STACK - -(-len(rest) * word // 16) * 16
        for place, value in enumerate(rest):
            self.write(stack + place * word, value.to_bytes(word, "little"))
        for register, value in zip(convention.arguments, given, strict=False):
            self._uc.reg_write(register, value)
        self._uc.reg_write(convention.stack, stack)
        thumb = self.target.triple.startswith("thumb")
        self._uc.reg_write(convention.link, STOP | thumb)
        self._uc.emu_start(self.program.addresses[name], STOP)
        assert self._uc.reg_read(convention.counter) & ~1 == STOP
        return int(self._uc.reg_read(convention.arguments[0])) & 0xFFFFFFFF

    @property
    def stack_bytes(self) -> int:
        """How much of the stack has been used."""
        stack = self.read(STACK - STACK_BYTES, STACK_BYTES)
        return len(stack.lstrip(bytes([UNTOUCHED])))

    def _count(self, uc: Any, address: int, size: int, _: object) -> None:
        key = (address, size)
        if key not in self._lengths:
            self._lengths[key] = _count_instructions(self.read(address, size), self.target)
        self.instructions += self._lengths[key]

    def _note(self, _: Any, kind: int, address: int, size: int, value: int, data: object) -> None:
        if address % min(size, 4):
            self.misaligned.append((address, size))


class _Convention:
    """Registers that a call uses."""

    def __init__(self, arguments: Sequence[int], stack: int, link: int, counter: int) -> None:
        self.arguments, self.stack, self.link, self.counter = arguments, stack, link, counter


_RISCV = _Convention(
    [riscv.UC_RISCV_REG_A0 + number for number in range(8)],
    riscv.UC_RISCV_REG_SP,
    riscv.UC_RISCV_REG_RA,
    riscv.UC_RISCV_REG_PC,
)
_CONVENTIONS = {
    "arm": _Convention(
        [arm.UC_ARM_REG_R0 + number for number in range(4)],
        arm.UC_ARM_REG_SP,
        arm.UC_ARM_REG_LR,
        arm.UC_ARM_REG_PC,
    ),
    "aarch64": _Convention(
        [arm64.UC_ARM64_REG_X0 + number for number in range(8)],
        arm64.UC_ARM64_REG_SP,
        arm64.UC_ARM64_REG_LR,
        arm64.UC_ARM64_REG_PC,
    ),
    "riscv32": _RISCV,
    "riscv64": _RISCV,
}
_CORTEX_M = {
    "cortex-m0": arm.UC_CPU_ARM_CORTEX_M0,
    "cortex-m3": arm.UC_CPU_ARM_CORTEX_M3,
    "cortex-m4": arm.UC_CPU_ARM_CORTEX_M4,
    "cortex-m33": arm.UC_CPU_ARM_CORTEX_M33,
}


def _processor(target: Target) -> Any:
    """The processor after its reset, with the arithmetic of floats switched on."""
    match target.architecture:
        case "aarch64":
            uc = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
            uc.ctl_set_cpu_model(arm64.UC_CPU_ARM64_MAX)
            uc.reg_write(arm64.UC_ARM64_REG_CPACR_EL1, 3 << 20)
        case "arm" if target.triple.startswith("thumb") and target.double_precision:
            # Unicorn's Cortex-M7 has no f64: the same instructions on another processor.
            uc = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB)
            uc.ctl_set_cpu_model(arm.UC_CPU_ARM_MAX)
            _switch_on_floats(uc)
        case "arm" if target.cpu in _CORTEX_M:
            uc = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS)
            uc.ctl_set_cpu_model(_CORTEX_M[target.cpu])
        case "arm":
            uc = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_ARM)
            uc.ctl_set_cpu_model(arm.UC_CPU_ARM_CORTEX_A8)
            _switch_on_floats(uc)
        case "riscv32":
            uc = unicorn.Uc(unicorn.UC_ARCH_RISCV, unicorn.UC_MODE_RISCV32)
            uc.reg_write(riscv.UC_RISCV_REG_MSTATUS, 3 << 13)
        case _:
            uc = unicorn.Uc(unicorn.UC_ARCH_RISCV, unicorn.UC_MODE_RISCV64)
            uc.reg_write(riscv.UC_RISCV_REG_MSTATUS, 3 << 13)
    return uc


def _switch_on_floats(uc: Any) -> None:
    """What a system does on a processor of Arm's with 32 bits."""
    access = uc.reg_read(arm.UC_ARM_REG_C1_C0_2)
    uc.reg_write(arm.UC_ARM_REG_C1_C0_2, access | 0xF << 20)
    uc.reg_write(arm.UC_ARM_REG_FPEXC, 1 << 30)


def _count_instructions(code: bytes, target: Target) -> int:
    """Instructions in a row of them: of two or four bytes, as the first half tells."""
    if target.architecture == "aarch64" or target.triple.startswith("armv7a"):
        return len(code) // 4
    place = count = 0
    while place < len(code):
        half = int.from_bytes(code[place : place + 2], "little")
        long = half >> 11 >= 0b11101 if target.architecture == "arm" else half & 3 == 3
        place += 4 if long else 2
        count += 1
    return count


def _pages(size: int) -> int:
    return -(-size // PAGE) * PAGE
