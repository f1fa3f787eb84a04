"""LLVM's functions: which there are, and what they do with Python's lock."""

from __future__ import annotations

import ctypes
import tomllib
from pathlib import Path

import llvmlite
import pytest

from afterglow.backends.cpu.llvm import native
from afterglow.backends.cpu.llvm.native import ENTRY_POINTS, LONG, check_entry_points
from afterglow.support.errors import UnsupportedError


def test_a_missing_entry_point_of_llvmlite_is_named() -> None:
    class Library:
        """A library that has all functions but one."""

    for name in ENTRY_POINTS[1:]:
        setattr(Library, name, None)
    with pytest.raises(UnsupportedError) as caught:
        check_entry_points(Library)
    assert str(caught.value) == (
        f"error: llvmlite {llvmlite.__version__} has no LLVMPY_ParseAssembly, "
        "which compiling needs\n"
        "  help: install a version that is tested: pip install 'llvmlite>=0.50,<0.51'"
    )


def test_the_help_for_llvmlite_names_the_versions_of_the_project() -> None:
    project = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text())["project"]
    assert "llvmlite>=0.50,<0.51" in project["optional-dependencies"]["compiler"]


def test_only_long_functions_release_the_lock_of_python() -> None:
    keeping = ctypes.PYFUNCTYPE(None)._flags_
    releasing = {name for name, call in native._CALL.items() if type(call)._flags_ != keeping}
    assert releasing == set(LONG)
