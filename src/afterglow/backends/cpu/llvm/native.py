"""LLVM's functions, called so that threads that compile seldom wait for Python's lock.

llvmlite calls each function with its own lock held and Python's released. Whoever released Python's
lock waits for it afterwards, 5 ms while another thread computes in Python, and a module takes about
twenty calls. Here only the long ones release it, which work on a context that no other thread
has; the short ones keep it, so that they also have LLVM to themselves as far as threads share it.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import llvmlite
import llvmlite.binding as llvm
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
_PREPARING = threading.Lock()
"""Held while LLVM prepares for a kind of processors, which it finds before it is ready for them."""
llvm.initialize_native_target()
llvm.initialize_native_asmprinter()


def object_code(text: str, target: Target, level: int) -> bytes:
    """An object file of a module in LLVM's language, at a level of code generation."""
    machine = _MACHINES.machine(target, level)
    context = _CALL["LLVMPY_ContextCreate"]()
    try:
        return emit(machine, parse(context, text), as_object=True)
    finally:
        _CALL["LLVMPY_ContextDispose"](context)  # and its modules


class _Machine:
    """What generates code, disposed of when nothing refers to it."""

    _dispose = _CALL["LLVMPY_DisposeTargetMachine"]

    def __init__(self, target: Target, level: int) -> None:
        self.made_for = target, level
        self.handle = create_machine(target, level)

    def __del__(self, dispose: Any = _dispose) -> None:
        if handle := vars(self).get("handle"):
            dispose(handle)


class _Machines(threading.local):
    """What generated code last in each thread: a new one takes longer than a small module."""

    def __init__(self) -> None:
        self.last: _Machine | None = None

    def machine(self, target: Target, level: int) -> Any:
        """What generates code for a target at a level."""
        if self.last is None or self.last.made_for != (target, level):
            self.last = _Machine(target, level)
        return self.last.handle


_MACHINES = _Machines()


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
    triple = target.triple.encode()
    family = _family(triple)
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


def _family(triple: bytes) -> Any:
    """LLVM's processors of a kind; those of other kinds than this machine's when asked for."""
    problem = ctypes.c_char_p(None)
    with _PREPARING:
        found = _CALL["LLVMPY_GetTargetFromTriple"](triple, ctypes.byref(problem))
        if not found:
            _CALL["LLVMPY_DisposeString"](problem)
            llvm.initialize_all_targets()
            llvm.initialize_all_asmprinters()
            problem = ctypes.c_char_p(None)
            found = _CALL["LLVMPY_GetTargetFromTriple"](triple, ctypes.byref(problem))
    _check(found, problem, "LLVM has no such target")
    return found


def _check(found: Any, problem: ctypes.c_char_p, what: str) -> None:
    """Raise what LLVM says if it has not made what it was asked for."""
    said = (problem.value or b"").decode(errors="replace")
    if said:
        _CALL["LLVMPY_DisposeString"](problem)
    if said or not found:
        raise CompileError(f"{what}: {said}")
