"""The CPU backend: machine code through LLVM.

>>> from afterglow.backends.cpu import Target
>>> Target.of("x86-64-v3").fma
True
"""

from afterglow.backends.cpu.llvm.compile import assembly, compile_module, verify_module
from afterglow.backends.cpu.llvm.emitter import Emitter, Module
from afterglow.backends.cpu.llvm.load import Library, load_host
from afterglow.backends.cpu.target import Target

__all__ = [
    "Emitter",
    "Library",
    "Module",
    "Target",
    "assembly",
    "compile_module",
    "load_host",
    "verify_module",
]
