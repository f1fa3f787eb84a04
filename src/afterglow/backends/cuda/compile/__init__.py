"""From the texts of kernels to machine code, ahead of time."""

from afterglow.backends.cuda.compile.compiler import (
    Compiled,
    KernelRefusedError,
    compile_kernels,
    try_kernels,
)

__all__ = ["Compiled", "KernelRefusedError", "compile_kernels", "try_kernels"]
