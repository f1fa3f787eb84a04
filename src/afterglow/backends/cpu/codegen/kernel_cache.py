"""Object code of kernels, compiled once and remembered."""

from __future__ import annotations

import hashlib

import llvmlite

from afterglow.backends.backend import KernelCache
from afterglow.backends.cpu.llvm.compile import Compile, compile_module
from afterglow.backends.cpu.llvm.emitter import Module
from afterglow.backends.cpu.target import Target


def caching_compiler(kernels: KernelCache | None) -> Compile:
    """What compiles a module only if the cache does not have its object code."""
    if kernels is None:
        return compile_module

    def compiled(module: Module, target: Target) -> bytes:
        text = "\n".join([llvmlite.__version__, repr(target), str(module.is_plain), module.text])
        key = hashlib.blake2b(text.encode(), digest_size=20).hexdigest()
        code = kernels.get(key)
        if code is None:
            code = compile_module(module, target)
            kernels.put(key, code)
        return code

    return compiled
