"""A Linux program for RISC-V with vectors, by the user mode of QEMU: Unicorn has no vectors."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from afterglow.backends.cpu import Target
from tests.emulation.linking import BASE, link_flat
from tests.emulation.machine import EmulatorError

QEMU = "qemu-riscv64"
HAS_QEMU = shutil.which(QEMU) is not None

MEMORY = 0x2000_0000
"""Where a call, and after it memory for the program's data, begins."""
CALL_BYTES = 4096
MOST_ARGUMENTS = 16
GAP = 256
"""Bytes between pieces of memory."""


class UserMachine:
    """Runs functions of a program, each call in a process of its own."""

    instructions = 0
    """Nobody counts them here."""

    def __init__(self, objects: Sequence[bytes], exports: Sequence[str], target: Target) -> None:
        self.program = link_flat(objects, exports, target)
        self.misaligned: list[tuple[int, int]] = []
        self._memory = bytearray(CALL_BYTES)

    def allocate(self, size: int, align: int = 64) -> int:
        """Memory of its own, all bytes 0xFF; its address."""
        start = -(-len(self._memory) // align) * align
        self._memory += bytes(start - len(self._memory)) + b"\xff" * size + bytes(GAP)
        return MEMORY + start

    def write(self, address: int, data: bytes) -> None:
        """Put bytes into memory."""
        start = address - MEMORY
        self._memory[start : start + len(data)] = data

    def read(self, address: int, size: int) -> bytes:
        """Bytes from memory."""
        start = address - MEMORY
        return bytes(self._memory[start : start + size])

    def call(self, name: str, *arguments: int) -> int:
        """Call a function by its name and wait for its end; what it returns, as 32 bits."""
        padded = [*arguments, *[0] * (MOST_ARGUMENTS - len(arguments))]
        words = [self.program.addresses[name], 0, *padded]
        self.write(MEMORY, b"".join(word.to_bytes(8, "little") for word in words))
        with tempfile.TemporaryDirectory() as folder:
            program, memory = Path(folder, "program"), Path(folder, "memory")
            program.write_bytes(self.program.memory)
            memory.write_bytes(self._memory)
            processor = [QEMU, "-cpu", "rv64,v=true,vlen=128,elen=64,vext_spec=v1.0"]
            files = [program, str(BASE), memory, str(MEMORY)]
            run = [*processor, _loader(), *files]
            done = subprocess.run(run, capture_output=True, text=True)
            if "Assertion" in done.stderr:  # version 7.2 has no vfncvt.rtz
                raise EmulatorError(done.stderr)
            done.check_returncode()
            self._memory = bytearray(memory.read_bytes())
        return int.from_bytes(self.read(MEMORY + 8, 4), "little")


@cache
def _loader() -> Path:
    """The program that loads others, compiled once."""
    folder = Path(tempfile.mkdtemp(prefix="afterglow-loader-"))
    options = ["-target", "riscv64-linux-none", "-O1", "-nostdlib", "-static"]
    options += ["-fno-sanitize=all", "-Wl,--image-base=0x70000000"]
    source = Path(__file__).with_name("loader.c")
    command = [sys.executable, "-m", "ziglang", "cc", *options, "-o", folder / "loader", source]
    subprocess.run(command, check=True)
    return folder / "loader"
