"""How element types and numbers are spelled in OpenCL C.

Floats of 16 bits are held as the integers that encode them: they are moved as they are, and
converted to f32 for arithmetic, at best as they are read and written. A boolean is an `int` in
registers and a byte in memory.
"""

from __future__ import annotations

import math

import numpy as np

from afterglow.backends.items.types import is_arithmetic
from afterglow.types.dtype import (
    DType,
    bf16,
    boolean,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)

_NAMES = {
    f32: "float",
    f64: "double",
    f16: "ushort",
    bf16: "ushort",
    i8: "char",
    u8: "uchar",
    i16: "short",
    u16: "ushort",
    i32: "int",
    u32: "uint",
    i64: "long",
    u64: "ulong",
    boolean: "int",
}
HELD = frozenset(_NAMES)
"""The element types that kernels read and write."""
_SIGNED = {8: i8, 16: i16, 32: i32, 64: i64}
_UNSIGNED = {8: u8, 16: u16, 32: u32, 64: u64}


def spell(dtype: DType, lanes: int = 1) -> str:
    """The type of a value in a register: `spell(f32, 8)` is `float8`."""
    return _NAMES[dtype] if lanes == 1 else f"{_NAMES[dtype]}{lanes}"


def spell_in_memory(dtype: DType) -> str:
    """As `spell`, but of one element in memory."""
    return "uchar" if dtype is boolean else spell(dtype)


def signed_of(bits: int) -> DType:
    """The signed integer of so many bits."""
    return _SIGNED[bits]


def unsigned_of(bits: int) -> DType:
    """The unsigned integer of so many bits."""
    return _UNSIGNED[bits]


def literal(dtype: DType, number: float, lanes: int = 1) -> str:
    """A constant, the same in all lanes; floats are rounded to their type first."""
    if lanes > 1:
        true = -1 if dtype is boolean and number else None
        return f"({spell(dtype, lanes)})({true if true is not None else literal(dtype, number)})"
    if dtype is boolean:
        return "1" if number else "0"
    if not is_arithmetic(dtype):
        encoded = np.asarray(number).astype(dtype.numpy).view(f"u{dtype.itemsize}")
        return f"(({spell(dtype)}){int(encoded)})"
    return _float(dtype, number) if dtype.is_float else _integer(dtype, number)


def _float(dtype: DType, number: float) -> str:
    with np.errstate(over="ignore"):
        rounded = dtype.numpy.type(number)
    if not math.isfinite(rounded):
        bits = int(np.asarray(rounded).view(f"u{dtype.itemsize}"))
        return f"as_{spell(dtype)}({bits:#x}{'u' if dtype is f32 else 'ul'})"
    text = float(rounded).hex()
    return f"({text}{'f' if dtype is f32 else ''})" if text[0] == "-" else _suffixed(dtype, text)


def _suffixed(dtype: DType, text: str) -> str:
    return text + ("f" if dtype is f32 else "")


def _integer(dtype: DType, number: float) -> str:
    if number != int(number):
        raise TypeError(f"{number} is no {dtype}")
    whole = int(number)
    if dtype in (i32, i64) and whole == -(1 << (dtype.bits - 1)):
        return f"(({spell(dtype)}){whole + (1 << dtype.bits):#x}{'u' if dtype is i32 else 'ul'})"
    suffix = {i64: "l", u32: "u", u64: "ul"}.get(dtype, "")
    text = f"{whole}{suffix}"
    if dtype.bits < 32:
        return f"(({spell(dtype)}){text})"
    return f"({text})" if whole < 0 else text
