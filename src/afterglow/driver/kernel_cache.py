"""Object code of kernels, kept on disk."""

from __future__ import annotations

from pathlib import Path

import llvmlite

from afterglow.backends.cpu import Module, Target, compile_module
from afterglow.backends.cpu.llvm.compile import Compile
from afterglow.driver.cache import CompileCache, digest_of_texts


def caching_compiler(folder: Path | None) -> Compile:
    """What makes object code of a module only if the cache in a folder does not have it."""
    if folder is None:
        return compile_module
    kernels = CompileCache(folder).kernels

    def compiled(module: Module, target: Target) -> bytes:
        key = digest_of_texts([llvmlite.__version__, repr(target), module.text])
        code = kernels.get(key)
        if code is None:
            code = compile_module(module, target)
            kernels.put(key, code)
        return code

    return compiled
