"""A shared library that pretends to be the driver, compiled from `libcuda.c`."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "libcuda.c"


def c_compiler():
    """The beginning of a command that compiles C for this machine; skips if there is none."""
    if not sys.platform.startswith("linux"):
        pytest.skip("the library of these tests is for Linux")
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    found = shutil.which("cc")
    return [found] if found else pytest.skip("no C compiler is here: install ziglang, or cc")


def build_library(folder: Path) -> Path:
    """Compile the library into a folder."""
    library = folder / "libcuda.so.1"
    command = [*c_compiler(), "-O1", "-shared", "-fPIC", "-o", str(library), str(SOURCE)]
    subprocess.run(command, check=True, capture_output=True)
    return library
