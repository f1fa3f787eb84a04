"""LLVM's functions: which there are, and what they do with Python's lock."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import llvmlite
import pytest

from afterglow.backends.cpu.llvm import native
from afterglow.backends.cpu.llvm.native import ENTRY_POINTS, LONG, check_entry_points
from afterglow.backends.cpu.target import Target
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


def test_a_thread_makes_what_generates_code_once_for_a_target_and_level(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[tuple[Target, int]] = []
    create = native.create_machine

    def counted(target: Target, level: int) -> object:
        made.append((target, level))
        return create(target, level)

    monkeypatch.setattr(native, "create_machine", counted)
    text = 'target triple = "x86_64"\ndefine void @f() { ret void }\n'
    first, second = Target.of("x86-64"), Target.of("x86-64-v3")

    def compile_some() -> list[bytes]:
        wanted = [(first, 2), (first, 2), (first, 0), (second, 0), (second, 0)]
        return [native.object_code(text, target, level) for target, level in wanted]

    with ThreadPoolExecutor(1) as executor:
        codes = executor.submit(compile_some).result()
    assert codes[0] == codes[1]
    assert codes[3] == codes[4]
    assert made == [(first, 2), (first, 0), (second, 0)]


OTHERS = """
from afterglow.backends.cpu.llvm import native
from afterglow.backends.cpu.target import Target
for name in ("aarch64", "x86-64"):
    made = native.object_code("define void @f() { ret void }", Target.of(name), 2)
    print(int.from_bytes(made[18:20], "little"))
"""
"""Compiles a function for processors of two kinds, and tells the machines of the object files."""


def test_processors_of_other_kinds_are_known_when_they_are_asked_for() -> None:
    shown = subprocess.run([sys.executable, "-c", OTHERS], capture_output=True, check=True)
    assert shown.stdout.split() == [b"183", b"62"]


AT_ONCE = """
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from afterglow.backends.cpu.llvm import native
from afterglow.backends.cpu.target import Target
target, ready = Target.of("aarch64"), Barrier(4)

def compiled(_):
    ready.wait()
    return native.object_code("define void @f() { ret void }", target, 2)

with ThreadPoolExecutor(4) as executor:
    print(len(set(executor.map(compiled, range(4)))))
"""
"""Threads that are the first to ask for other processors, at the same time."""


@pytest.mark.parametrize("time", range(3))
def test_threads_may_ask_for_processors_of_another_kind_at_once(time: int) -> None:
    shown = subprocess.run([sys.executable, "-c", AT_ONCE], capture_output=True, check=True)
    assert shown.stdout.split() == [b"1"]
