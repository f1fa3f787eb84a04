"""Shared libraries of bundles, linked by zig (from PyPI), or by the system's compiler."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

from afterglow.backends.cpu.bundle.files.systems import zig_target
from afterglow.backends.cpu.bundle.files.web import LINK_OPTIONS
from afterglow.backends.cpu.target import Target
from afterglow.support.errors import CompileError, UsageError


def library_name(name: str, target: Target) -> str:
    """The file name of the shared library of a bundle."""
    if target.architecture == "wasm":
        return f"{name}.wasm"
    if any(system in target.triple for system in ("darwin", "macos", "ios")):
        return f"lib{name}.dylib"
    if "windows" in target.triple:
        return f"{name}.dll"
    return f"lib{name}.so"


def c_compiler(target: Target) -> list[str]:
    """The beginning of a command line that compiles and links C for a target."""
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc", "-target", zig_target(target.triple)]
    system = shutil.which("cc")
    if system is not None and zig_target(target.triple) == zig_target(Target.host().triple):
        return [system]
    raise UsageError(
        f"there is no linker for {target.triple} here",
        help="install one: pip install 'afterglow[bundle]'",
    )


def link_library(objects: list[Path], library: Path, target: Target) -> None:
    """Link objects into a shared library."""
    options = LINK_OPTIONS if target.architecture == "wasm" else ("-shared",)
    command = [*c_compiler(target), *options, "-o", str(library), *map(str, objects)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CompileError(
            f"{library.name} cannot be linked", excerpt=done.stderr.strip().splitlines()[:20]
        )
