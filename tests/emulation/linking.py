"""Linking object files, by the linker that comes with Zig, into what an emulator loads."""

from __future__ import annotations

import importlib.util
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from afterglow.backends.cpu import Target

BASE = 0x100000
"""Where a flat program begins."""

HAS_LINKER = importlib.util.find_spec("ziglang") is not None

_SCRIPT = """
SECTIONS {{
  . = {base};
  .table : {{ LONG(SIZEOF(.text)) LONG(SIZEOF(.rodata)) {entries} }}
  .text : ALIGN(64) {{ *(.text .text.*) }}
  .rodata : ALIGN(64) {{ *(.rodata .rodata.* .srodata .srodata.*) }}
  .data : ALIGN(64) {{ *(.data .data.* .data.rel.ro.* .sdata .sdata.* .got .got.*) *(.bss .bss.*) }}
  /DISCARD/ : {{ *(.ARM.exidx*) *(.ARM.extab*) *(.eh_frame) }}
}}
"""

_EMULATION = {
    "arm": "armelf_linux_eabi",
    "aarch64": "aarch64linux",
    "riscv32": "elf32lriscv",
    "riscv64": "elf64lriscv",
}


@dataclass(frozen=True)
class Flat:
    """A program as the bytes that lie in memory from `BASE` on, and where its functions are."""

    memory: bytes
    addresses: dict[str, int]
    code_bytes: int
    constant_bytes: int


def link_flat(objects: Sequence[bytes], exports: Sequence[str], target: Target) -> Flat:
    """A program without headers; every symbol must be defined."""
    entries = " ".join(f"LONG({name})" for name in exports)
    script = _SCRIPT.format(base=BASE, entries=entries)
    options = ["-m", _EMULATION[target.architecture], "--oformat", "binary", "-e", "0"]
    memory = _link("ld.lld", options, objects, script)
    sizes = struct.unpack_from("<II", memory)
    places = struct.unpack_from(f"<{len(exports)}I", memory, 8)
    thumb = target.triple.startswith("thumb")
    addresses = {name: place | thumb for name, place in zip(exports, places, strict=True)}
    return Flat(memory, addresses, *sizes)


def link_wasm(objects: Sequence[bytes], exports: Sequence[str], stack_bytes: int) -> bytes:
    """A module of WebAssembly; every symbol must be defined."""
    options = ["--no-entry", "--stack-first", "-z", f"stack-size={stack_bytes}"]
    options += ["--export=__heap_base", "--export-memory", "--strip-all"]
    return _link("wasm-ld", [*options, *(f"--export={name}" for name in exports)], objects)


def _link(linker: str, options: Sequence[str], objects: Sequence[bytes], script: str = "") -> bytes:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = []
        for number, data in enumerate(objects):
            files.append(folder / f"{number}.o")
            files[-1].write_bytes(data)
        out = folder / "out"
        command = [sys.executable, "-m", "ziglang", linker, *options, "-o", out, *files]
        if script:
            (folder / "script").write_text(script)
            command += ["-T", folder / "script"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return out.read_bytes()
