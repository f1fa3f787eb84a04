"""How element types and numbers are spelled in LLVM's text.

Integers have no sign in LLVM; ours keep it in their element type. Floats below 32 bits are held as
the integers that encode them: they are moved as they are, and converted to f32 for arithmetic.
"""

from __future__ import annotations

import struct
from functools import cache

import numpy as np

from afterglow.types.dtype import DType, Kind, boolean, f32, f64

POINTER = "ptr"
"""LLVM's only type of pointers."""


@cache
def is_arithmetic(dtype: DType) -> bool:
    """Whether the machine computes with it; the others are only moved and converted."""
    return dtype in (f32, f64) or (dtype.is_integer and dtype.bits >= 8)


@cache
def spell(dtype: DType, lanes: int = 1) -> str:
    """The type of a value in a register: `spell(f32, 8)` is `<8 x float>`.

    One lane is a scalar, never a vector.
    """
    element = _element(dtype)
    return element if lanes == 1 else f"<{lanes} x {element}>"


def _element(dtype: DType) -> str:
    match dtype.kind:
        case Kind.BOOL:
            return "i1"
        case Kind.FLOAT if dtype.bits >= 32:
            return "double" if dtype is f64 else "float"
        case Kind.FLOAT | Kind.INT | Kind.UINT:
            return f"i{max(dtype.bits, 8)}"
    raise TypeError(f"no machine type holds {dtype}")


@cache
def spell_in_memory(dtype: DType, lanes: int = 1) -> str:
    """As `spell`, but of what lies in memory: a boolean is a byte there."""
    if dtype is boolean:
        return "i8" if lanes == 1 else f"<{lanes} x i8>"
    return spell(dtype, lanes)


@cache
def mangle(dtype: DType, lanes: int = 1) -> str:
    """How the names of intrinsics end: `mangle(f32, 8)` is `v8f32`."""
    element = {"double": "f64", "float": "f32"}.get(_element(dtype), _element(dtype))
    return element if lanes == 1 else f"v{lanes}{element}"


def literal(dtype: DType, number: float, lanes: int = 1) -> str:
    """A constant, the same in all lanes."""
    if number == 0 and lanes > 1 and not _is_negative_zero(number):
        return "zeroinitializer"
    text = scalar_literal(dtype, number)
    return text if lanes == 1 else f"splat ({spell(dtype)} {text})"


def scalar_literal(dtype: DType, number: float) -> str:
    """A constant of one lane; floats are rounded to their type first."""
    if type(number) is int and dtype.is_integer and is_arithmetic(dtype):
        return str(number)
    if dtype is boolean:
        return "true" if number else "false"
    if not is_arithmetic(dtype):
        encoded = np.asarray(number).astype(dtype.numpy).view(f"u{dtype.itemsize}")
        return str(int(encoded))
    if dtype.is_float:
        return f"0x{struct.pack('>d', float(dtype.numpy.type(number))).hex().upper()}"
    if number != int(number):
        raise TypeError(f"{number} is no {dtype}")
    return str(int(number))


def _is_negative_zero(number: float) -> bool:
    return isinstance(number, float) and number == 0 and struct.pack(">d", number)[0] != 0
