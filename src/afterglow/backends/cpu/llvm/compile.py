"""From LLVM's text to machine code: code generation only, no pass pipeline.

Kernels are written with explicit vectors and carried values, so that there is nothing left for the
optimiser to find. LLVM's own scheduling, register allocation and folding of addresses do the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import llvmlite.binding as llvm

from afterglow.backends.cpu.llvm.emitter import Module
from afterglow.backends.cpu.llvm.native import create_machine, emit, object_code, parse
from afterglow.backends.cpu.target import Target
from afterglow.support.errors import CompileError

OPTIMISATION = 2
"""LLVM's level of code generation: above it nothing is gained, below it half the speed is lost."""
PLAIN = 0
"""The level for code that only calls other code: it takes a sixth of the time to compile."""

Compile: TypeAlias = Callable[[Module, Target], bytes]
"""From a module to its object code: `compile_module`, or something that remembers."""


def compile_module(module: Module | str, target: Target) -> bytes:
    """An object file of the module, independent of its position.

    Modules may be compiled in several threads at once: each call has an LLVM context of its own.
    """
    level = PLAIN if isinstance(module, Module) and module.is_plain else OPTIMISATION
    return object_code(_text(module), target, level)


def assembly(module: Module | str, target: Target) -> str:
    """The module in the assembly language of its target, to be read."""
    with Compilation(_text(module), target) as compilation:
        return compilation.emit(as_object=False).decode()


def _text(module: Module | str) -> str:
    return module.text if isinstance(module, Module) else module


class Compilation:
    """A module parsed by LLVM, with its context and target machine; closed in the right order."""

    def __init__(self, text: str, target: Target, level: int = OPTIMISATION) -> None:
        self.machine = llvm.TargetMachine(create_machine(target, level))
        self.context = llvm.create_context()
        self.module = self.parse(text)

    def parse(self, text: str) -> Any:
        """Another module, beside the first: to be linked into it, or closed."""
        return llvm.ModuleRef(parse(self.context, text), self.context)

    def verify(self) -> None:
        """Raise if the module breaks a rule of LLVM's."""
        try:
            self.module.verify()
        except RuntimeError as problem:
            raise CompileError(f"LLVM refuses the code: {problem}") from None

    def emit(self, *, as_object: bool) -> bytes:
        """Generate code, as an object file or as assembly."""
        self.machine.set_asm_verbosity(False)
        return emit(self.machine, self.module, as_object=as_object)

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
