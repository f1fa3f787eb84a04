"""LLVM's functions, called so that threads that compile seldom wait for Python's lock.

llvmlite calls each function with its own lock held and Python's released. Whoever released Python's
lock waits for it afterwards, 5 ms while another thread computes in Python, and a module takes about
twenty calls. Here only the long ones release it, which work on a context that no other thread
has; the short ones keep it, so that they also have LLVM to themselves as far as threads share it.
"""

from __future__ import annotations

import ctypes
from typing import Any

import llvmlite
from llvmlite.binding import ffi

from afterglow.backends.cpu.target import Target
from afterglow.support.errors import CompileError, UnsupportedError

LONG = (
    "LLVMPY_ParseAssembly",
    "LLVMPY_TargetMachineEmitToMemory",
    "LLVMPY_ContextDispose",
)
"""Functions that release Python's lock."""
SHORT = (
    "LLVMPY_ContextCreate",
    "LLVMPY_GetTargetFromTriple",
    "LLVMPY_CreateTargetMachine",
    "LLVMPY_DisposeTargetMachine",
    "LLVMPY_GetBufferStart",
    "LLVMPY_GetBufferSize",
    "LLVMPY_DisposeMemoryBuffer",
    "LLVMPY_DisposeString",
)
"""Functions that keep it."""
ENTRY_POINTS = (*LONG, *SHORT)
"""Functions of llvmlite's library that are called here though they are not part of its interface.

`pyproject.toml` admits the versions of llvmlite that were tested with them.
"""


def check_entry_points(library: Any) -> None:
    """Raise if llvmlite's library lacks a function that is called here."""
    missing = [name for name in ENTRY_POINTS if not hasattr(library, name)]
    if missing:
        raise UnsupportedError(
            f"llvmlite {llvmlite.__version__} has no {', '.join(missing)}, which compiling needs",
            help="install a version that is tested: pip install 'llvmlite>=0.50,<0.51'",
        )


def _functions() -> dict[str, Any]:
    """The functions by name, with the types that llvmlite gives them."""
    check_entry_points(ffi.lib)
    releasing, keeping = ctypes.CDLL(ffi.lib._name), ctypes.PyDLL(ffi.lib._name)
    found = {name: getattr(releasing if name in LONG else keeping, name) for name in ENTRY_POINTS}
    for name, function in found.items():
        guarded = getattr(ffi.lib, name)
        function.argtypes, function.restype = guarded.argtypes, guarded.restype
    return found


_CALL = _functions()


def object_code(text: str, target: Target, level: int) -> bytes:
    """An object file of a module in LLVM's language, at a level of code generation."""
    machine = create_machine(target, level)
    context = _CALL["LLVMPY_ContextCreate"]()
    try:
        return emit(machine, parse(context, text), as_object=True)
    finally:
        _CALL["LLVMPY_ContextDispose"](context)  # and its modules
        _CALL["LLVMPY_DisposeTargetMachine"](machine)


def parse(context: Any, text: str) -> Any:
    """A module of a context, by its text."""
    problem = ctypes.c_char_p(None)
    module = _CALL["LLVMPY_ParseAssembly"](context, text.encode(), ctypes.byref(problem))
    _check(module, problem, "LLVM refuses the code")
    return module


def emit(machine: Any, module: Any, *, as_object: bool) -> bytes:
    """Generate the code of a module, as an object file or as assembly."""
    problem = ctypes.c_char_p(None)
    buffer = _CALL["LLVMPY_TargetMachineEmitToMemory"](
        machine, module, int(as_object), ctypes.byref(problem)
    )
    _check(buffer, problem, "LLVM cannot compile the code")
    try:
        size = _CALL["LLVMPY_GetBufferSize"](buffer)
        return ctypes.string_at(_CALL["LLVMPY_GetBufferStart"](buffer), size)
    finally:
        _CALL["LLVMPY_DisposeMemoryBuffer"](buffer)


def create_machine(target: Target, level: int) -> Any:
    """What generates code for a target: independent of its position, with near addresses."""
    problem = ctypes.c_char_p(None)
    triple = target.triple.encode()
    family = _CALL["LLVMPY_GetTargetFromTriple"](triple, ctypes.byref(problem))
    _check(family, problem, "LLVM has no such target")
    features = ",".join(f"+{name}" for name in target.features)
    return _CALL["LLVMPY_CreateTargetMachine"](
        family,
        triple,
        target.cpu.encode(),
        features.encode(),
        level,
        b"pic",
        b"small",
        0,
        0,
        target.abi.encode(),
    )


def _check(found: Any, problem: ctypes.c_char_p, what: str) -> None:
    """Raise what LLVM says if it has not made what it was asked for."""
    said = (problem.value or b"").decode(errors="replace")
    if said:
        _CALL["LLVMPY_DisposeString"](problem)
    if said or not found:
        raise CompileError(f"{what}: {said}")
