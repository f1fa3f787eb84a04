"""Arithmetic that a processor lacks, as functions that code generation calls by name.

LLVM has a call where the processor has no instruction: for floats of 64 bits on a Cortex-M4, for
integers of 64 bits on all machines of 32. Usually a library of the compiler defines those functions
(compiler-rt, libgcc); here they are written like kernels are, so that an object needs no library.
"""

from afterglow.backends.cpu.llvm.routines.names import ROUTINES
from afterglow.backends.cpu.llvm.routines.write import write_routines

__all__ = ["ROUTINES", "write_routines"]
