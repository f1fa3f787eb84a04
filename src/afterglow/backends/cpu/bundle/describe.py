"""The description of a bundle as code, for libraries that are loaded without their files."""

from __future__ import annotations

import numpy as np

from afterglow.backends.cpu.llvm.compile import compile_module
from afterglow.backends.cpu.llvm.emitter import Module
from afterglow.backends.cpu.target import Target
from afterglow.types.dtype import u8


def describe_object(name: str, text: str, target: Target) -> bytes:
    """An object file with `NAME_describe()`, which returns the text."""
    module = Module(target)
    with module.function(f"{name}_describe") as e:
        data = np.frombuffer(text.encode() + b"\0", np.uint8)
        e.return_pointer(module.table(e, "description", data).cast(u8))
    return compile_module(module, target)
