"""WebAssembly, by Wasmtime."""

from __future__ import annotations

from collections.abc import Sequence

import wasmtime

from tests.emulation.linking import link_wasm

STACK_BYTES = 64 << 10
PAGE = 64 << 10
FUEL = 1 << 50
GAP = 256
"""Bytes between pieces of memory."""


class WasmMachine:
    """Runs functions of a module as a page does; an instruction costs one unit of fuel."""

    def __init__(self, objects: Sequence[bytes], exports: Sequence[str]) -> None:
        self.misaligned: list[tuple[int, int]] = []
        config = wasmtime.Config()
        config.consume_fuel = True
        self.module = link_wasm(objects, exports, STACK_BYTES)
        engine = wasmtime.Engine(config)
        self._store = wasmtime.Store(engine)
        self._store.set_fuel(FUEL)
        module = wasmtime.Module(engine, self.module)
        assert not module.imports
        self._exports = wasmtime.Instance(self._store, module, []).exports(self._store)
        self._memory = self._exports["memory"]
        self._top = self._exports["__heap_base"].value(self._store)

    @property
    def instructions(self) -> int:
        """How many have been executed so far."""
        return FUEL - self._store.get_fuel()

    def allocate(self, size: int, align: int = 64) -> int:
        """Memory of its own, all bytes 0xFF; its address."""
        address = -(-self._top // align) * align
        self._top = address + size + GAP
        missing = self._top - self._memory.data_len(self._store)
        if missing > 0:
            self._memory.grow(self._store, -(-missing // PAGE))
        self.write(address, b"\xff" * size)
        return address

    def write(self, address: int, data: bytes) -> None:
        """Put bytes into memory."""
        self._memory.write(self._store, data, address)

    def read(self, address: int, size: int) -> bytes:
        """Bytes from memory."""
        return bytes(self._memory.read(self._store, address, address + size))

    def call(self, name: str, *arguments: int) -> int:
        """Call a function by its name and wait for its end; what it returns, as 32 bits."""
        signed = (value - (1 << 32) if value >> 31 else value for value in arguments)
        return int(self._exports[name](self._store, *signed) or 0) & 0xFFFFFFFF
