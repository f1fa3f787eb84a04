"""Write a kernel, compile it for this machine, and call it with arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from afterglow.backends.cpu import Module, Target, compile_module, load_host, verify_module
from afterglow.backends.cpu.llvm.emitter import Emitter, Value
from afterglow.types import Array
from afterglow.types.dtype import DType

HOST = Target.host()
RUNNABLE = [
    name
    for name in ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64", "host")
    if not Target.of(name).missing_on(HOST)
]
"""Targets whose code this machine runs."""

Kernel = Callable[..., None]


def build(write: Callable[[Emitter], None], target: Target = HOST, name: str = "kernel") -> Kernel:
    """A kernel as a callable: arrays are passed by address, whole numbers as counts."""
    module = Module(target)
    with module.function(name) as e:
        write(e)
    verify_module(module, target)
    library = load_host(compile_module(module, target), module.exports, target)

    def call(*arguments: Any) -> None:
        kinds = [_kind(argument) for argument in arguments]
        passed = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments]
        library.function(name, *kinds)(*passed)

    return call


def _kind(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return ctypes.c_void_p
    return ctypes.c_float if isinstance(argument, np.float32) else ctypes.c_int64


def apply(
    function: Callable[..., Value],
    result: DType,
    *arrays: Array,
    lanes: int | None = None,
    target: Target = HOST,
) -> Array:
    """Apply a function of values to arrays of one shape, lane by lane."""
    dtypes = [DType.of(array.dtype) for array in arrays]
    size = arrays[0].size

    def write(e: Emitter) -> None:
        width = lanes or e.lanes(dtypes[0])
        sources = [e.pointer(f"x{i}", dtype) for i, dtype in enumerate(dtypes)]
        out, count = e.pointer("out", result), e.count("count")
        with e.loop(count, step=width) as i:
            out.store(function(*(source.load(i, width) for source in sources)), i)

    width = 64  # a multiple of every lane count in the tests
    padded = -(-size // width) * width
    held = [np.zeros(padded, array.dtype) for array in arrays]
    for room, array in zip(held, arrays, strict=True):
        room[:size] = array.reshape(-1)
        room[size:] = array.reshape(-1)[:1]
    out = np.zeros(padded, result.numpy)
    build(write, target)(*held, out, padded)
    return out[:size].reshape(arrays[0].shape)
