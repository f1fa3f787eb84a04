"""Loading object code into this process, by LLVM's own linker: for kernels that are being written.

Models are loaded by `runtime/native/load.py`, which maps an image that `link/` has linked, and so
needs neither LLVM nor relocation when a model starts. This loader takes an object file as the
compiler made it, so that one kernel can be tried without linking: the tests, the benchmarks and the
documentation use it, and a fault of the linker cannot hide behind itself.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from afterglow.backends.cpu.llvm import compile as _compile  # noqa: F401  initialises LLVM's targets
from afterglow.backends.cpu.target import Target
from afterglow.runtime.native.machine import check_runs_here
from afterglow.support.errors import CompileError

_NUMBERS = itertools.count()


class Library:
    """Code in this process, found by the names of its functions; gone when nothing refers to it."""

    def __init__(self, tracker: Any, names: Sequence[str]) -> None:
        self._tracker = tracker
        self.addresses: dict[str, int] = {name: tracker[name] for name in names}

    def function(self, name: str, *arguments: Any, result: Any = None) -> Any:
        """A callable from Python, given ctypes of its arguments and its result."""
        made: Any = ctypes.CFUNCTYPE(result, *arguments)(self.addresses[name])
        made.library = self
        return made


def load_host(
    code: bytes, exports: Sequence[str], target: Target, imports: Mapping[str, int] | None = None
) -> Library:
    """Put an object file into memory, ready to run.

    Functions that it calls are those of `imports`, by address, and those of this process.
    """
    check_runs_here(target.needs)
    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    for name in exports:
        builder.export_symbol(name)
    for name, address in (imports or {}).items():
        builder.import_symbol(name, address)
    try:
        return Library(builder.link(_linker(), f"library{next(_NUMBERS)}"), exports)
    except RuntimeError as problem:
        raise CompileError(f"the code cannot be loaded: {problem}") from None


@cache
def _linker() -> Any:
    host = llvm.Target.from_triple(Target.host().triple)
    machine = host.create_target_machine(reloc="pic", codemodel="small", jit=True)
    return llvm.create_lljit_compiler(machine)
