"""The code of a program as text, to be read."""

from __future__ import annotations

from afterglow.backends.cpu.codegen.generate import generate
from afterglow.backends.cpu.llvm.compile import assembly
from afterglow.backends.cpu.target import Target
from afterglow.instr import Program


def llvm_text(program: Program, target: Target) -> str:
    """All modules in LLVM's language: the kernels, then the steps that call them."""
    modules = generate(program, target).modules
    return "\n".join(module.text.rstrip() + "\n" for module in modules)


def assembly_text(program: Program, target: Target) -> str:
    """The same modules in the assembly language of the target."""
    modules = generate(program, target).modules
    return "\n".join(assembly(module, target).rstrip() + "\n" for module in modules)
