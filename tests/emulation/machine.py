"""What all emulated machines can do."""

from __future__ import annotations

from typing import Protocol


class Machine(Protocol):
    """Code and memory of an emulated machine; nothing is shared between two of them."""

    instructions: int
    """How many have been executed so far."""
    misaligned: list[tuple[int, int]]
    """Address and size of accesses that a small processor would refuse, as far as is watched."""

    def allocate(self, size: int, align: int = 64) -> int:
        """Memory of its own, all bytes 0xFF; its address."""

    def write(self, address: int, data: bytes) -> None:
        """Put bytes into memory."""

    def read(self, address: int, size: int) -> bytes:
        """Bytes from memory."""

    def call(self, name: str, *arguments: int) -> int:
        """Call a function by its name and wait for its end; what it returns, as 32 bits."""


class EmulatorError(Exception):
    """The emulator itself gave up."""
