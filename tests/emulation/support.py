"""What firmware brings along: functions that LLVM calls without being told to."""

from __future__ import annotations

from functools import cache

from afterglow.backends.cpu import Module, Target, compile_module
from afterglow.backends.cpu.bundle.memory import write_memory_functions
from afterglow.backends.cpu.llvm.routines import ROUTINES, write_routines


@cache
def support_object(target: Target) -> bytes:
    """All of them, by the names that they have there."""
    module = Module(target)
    write_memory_functions(module)
    arm = target.architecture == "arm"
    names = [name for name in ROUTINES if name.startswith("__aeabi") == arm]
    write_routines(module, [*names, *(["sqrt", "__clzsi2"] if arm else [])])
    return compile_module(module, target)
