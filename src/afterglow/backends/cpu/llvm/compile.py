"""From LLVM's text to machine code: code generation only, no pass pipeline.

Kernels are written with explicit vectors and carried values, so that there is nothing left for the
optimiser to find. LLVM's own scheduling, register allocation and folding of addresses do the rest.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, TypeAlias

import llvmlite
import llvmlite.binding as llvm
from llvmlite.binding import ffi

from afterglow.backends.cpu.llvm.emitter import Module
from afterglow.backends.cpu.target import Target
from afterglow.support.errors import CompileError, UnsupportedError

ENTRY_POINTS = (
    "LLVMPY_ParseAssembly",
    "LLVMPY_TargetMachineEmitToMemory",
    "LLVMPY_GetBufferStart",
    "LLVMPY_GetBufferSize",
    "LLVMPY_DisposeMemoryBuffer",
)
"""Functions of llvmlite's library that are called here though they are not part of its interface.

`pyproject.toml` admits the versions of llvmlite that were tested with them.
"""
OPTIMISATION = 2
"""LLVM's level of code generation: above it nothing is gained, below it half the speed is lost."""
PLAIN = 0
"""The level for code that only calls other code: it takes a sixth of the time to compile."""

Compile: TypeAlias = Callable[[Module, Target], bytes]
"""From a module to its object code: `compile_module`, or something that remembers."""

llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()


def compile_module(module: Module | str, target: Target) -> bytes:
    """An object file of the module, independent of its position.

    Modules may be compiled in several threads at once: each call has an LLVM context of its own.
    """
    level = PLAIN if isinstance(module, Module) and module.is_plain else OPTIMISATION
    return object_code(_text(module), target, level)


def object_code(text: str, target: Target, level: int) -> bytes:
    """An object file of a module in LLVM's language, at a level of code generation."""
    with Compilation(text, target, level) as compilation:
        return compilation.emit(as_object=True)


def assembly(module: Module | str, target: Target) -> str:
    """The module in the assembly language of its target, to be read."""
    with Compilation(_text(module), target) as compilation:
        return compilation.emit(as_object=False).decode()


def _text(module: Module | str) -> str:
    return module.text if isinstance(module, Module) else module


def check_entry_points(library: Any) -> None:
    """Raise if llvmlite's library lacks a function that is called here."""
    missing = [name for name in ENTRY_POINTS if not hasattr(library, name)]
    if missing:
        raise UnsupportedError(
            f"llvmlite {llvmlite.__version__} has no {', '.join(missing)}, which compiling needs",
            help="install a version that is tested: pip install 'llvmlite>=0.50,<0.51'",
        )


def _unlocked(name: str) -> Any:
    """A function of LLVM's that does not take llvmlite's global lock.

    llvmlite lets only one thread at a time into LLVM. That is needed for what threads share; the
    two long calls here, parsing and emitting, work on a context that no other thread has.
    """
    guarded = getattr(ffi.lib, name)
    function = getattr(_LIBRARY, name)
    function.argtypes, function.restype = guarded.argtypes, guarded.restype
    return function


check_entry_points(ffi.lib)
_LIBRARY = ctypes.CDLL(ffi.lib._name)
_PARSE = _unlocked("LLVMPY_ParseAssembly")
_EMIT = _unlocked("LLVMPY_TargetMachineEmitToMemory")


class Compilation:
    """A module parsed by LLVM, with its context and target machine; closed in the right order."""

    def __init__(self, text: str, target: Target, level: int = OPTIMISATION) -> None:
        self.machine = _target_machine(target, level)
        self.context = llvm.create_context()
        self.module = self.parse(text)

    def parse(self, text: str) -> Any:
        """Another module, beside the first: to be linked into it, or closed."""
        with ffi.OutputString() as problem:
            module = _PARSE(self.context, text.encode(), problem)
            if problem:
                raise CompileError(f"LLVM refuses the code: {problem}")
        return llvm.ModuleRef(module, self.context)

    def verify(self) -> None:
        """Raise if the module breaks a rule of LLVM's."""
        try:
            self.module.verify()
        except RuntimeError as problem:
            raise CompileError(f"LLVM refuses the code: {problem}") from None

    def emit(self, *, as_object: bool) -> bytes:
        """Generate code, as an object file or as assembly."""
        self.machine.set_asm_verbosity(False)
        with ffi.OutputString() as problem:
            buffer = _EMIT(self.machine, self.module, int(as_object), problem)
            if not buffer:
                raise CompileError(f"LLVM cannot compile the code: {problem}")
        try:
            start = ffi.lib.LLVMPY_GetBufferStart(buffer)
            return ctypes.string_at(start, ffi.lib.LLVMPY_GetBufferSize(buffer))
        finally:
            ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)

    def __enter__(self) -> Compilation:
        return self

    def __exit__(self, *_: object) -> None:
        self.module.close()
        self.machine.close()
        self.context.close()


def verify_module(module: Module | str, target: Target) -> None:
    """Raise if LLVM's verifier rejects the module."""
    with Compilation(_text(module), target) as compilation:
        compilation.verify()


def _target_machine(target: Target, level: int) -> Any:
    family = llvm.Target.from_triple(target.triple)
    return family.create_target_machine(
        cpu=target.cpu,
        features=",".join(f"+{name}" for name in target.features),
        opt=level,
        reloc="pic",
        codemodel="small",
        abiname=target.abi,
    )
