"""What runs a bundle: an operating system, firmware alone, or a page; and how C is built for it."""

from __future__ import annotations

from enum import Enum, auto

from afterglow.backends.cpu.target import Target


class System(Enum):
    """Where the code of a bundle is called."""

    HOSTED = auto()
    """A program with files and threads."""
    FIRMWARE = auto()
    """A device without an operating system."""
    WEB = auto()
    """A module of WebAssembly, which a page or another program loads."""


_ZIG_NAMES = {
    "thumbv7em": "thumb",
    "thumbv8m.main": "thumb",
    "armv7a": "arm",
    "arm64": "aarch64",
    "darwin": "macos",
    "macosx": "macos",
    "none": "freestanding",
    "elf": "freestanding",
}
_RISCV_LETTERS = "imafdcv"
"""Extensions that are one letter, in the order in which compilers want them."""


def system_of(target: Target) -> System:
    """What runs the code of a target."""
    if target.architecture == "wasm":
        return System.WEB
    bare = {"none", "elf"} & set(target.triple.split("-")[1:])
    return System.FIRMWARE if bare else System.HOSTED


def zig_target(triple: str) -> str:
    """How zig calls a machine: x86_64-linux-gnu."""
    architecture, *rest = triple.split("-")
    words = [word for word in rest if word not in ("unknown", "pc", "apple")] or ["none"]
    words[0] = words[0].rstrip("0123456789.")
    return "-".join(_ZIG_NAMES.get(word, word) for word in (architecture, *words))


def zig_flags(target: Target) -> str:
    """Options of `zig cc` for a target: its machine, and the processor where that must be said."""
    machine = f"-target {zig_target(target.triple)}"
    if target.architecture == "arm" and target.cpu != "generic":
        return f"{machine} -mcpu={target.cpu.replace('-', '_')}"
    if target.architecture.startswith("riscv"):
        return f"{machine} -mcpu={'+'.join((target.cpu.replace('-', '_'), *_extensions(target)))}"
    return machine


def gcc_name(target: Target) -> str:
    """What GCC for the firmware of a target is usually called."""
    if target.architecture == "arm":
        return "arm-none-eabi-gcc"
    if target.architecture.startswith("riscv"):
        return f"{target.architecture}-unknown-elf-gcc"
    return f"{target.triple.split('-')[0]}-elf-gcc"


def gcc_flags(target: Target) -> str:
    """Options of GCC for the firmware of a target."""
    if target.architecture == "arm":
        floats = "hard" if target.triple.endswith("hf") else "soft"
        return f"-mcpu={target.cpu} -mthumb -mfloat-abi={floats}"
    if target.architecture.startswith("riscv"):
        letters = ["i", *_extensions(target)]
        march = f"rv{target.pointer_bits}{''.join(letters)}"
        return f"-march={march}" + (f" -mabi={target.abi}" if target.abi else "")
    return ""


def _extensions(target: Target) -> list[str]:
    return [letter for letter in _RISCV_LETTERS if letter in target.features]
