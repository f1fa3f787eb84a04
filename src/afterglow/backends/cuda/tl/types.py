"""How element types and numbers are spelled in Triton's language.

Floats of 16 bits are moved as they are, and become f32 for arithmetic. A boolean is a bit in
registers and a byte in memory.
"""

from __future__ import annotations

import math

import numpy as np

from afterglow.backends.items.types import computed, is_arithmetic, is_number
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

__all__ = [
    "HELD",
    "computed",
    "is_arithmetic",
    "is_number",
    "literal",
    "number_text",
    "spell",
    "spell_pointer",
]

_NAMES = {
    f32: "float32",
    f64: "float64",
    f16: "float16",
    bf16: "bfloat16",
    i8: "int8",
    u8: "uint8",
    i16: "int16",
    u16: "uint16",
    i32: "int32",
    u32: "uint32",
    i64: "int64",
    u64: "uint64",
    boolean: "int1",
}
_POINTERS = {
    f32: "*fp32",
    f64: "*fp64",
    f16: "*fp16",
    bf16: "*bf16",
    i8: "*i8",
    u8: "*u8",
    i16: "*i16",
    u16: "*u16",
    i32: "*i32",
    u32: "*u32",
    i64: "*i64",
    u64: "*u64",
    boolean: "*u8",
}
HELD = frozenset(_NAMES)
"""The element types that kernels read and write."""


def spell(dtype: DType) -> str:
    """The type of a value: `spell(f32)` is `tl.float32`."""
    return f"tl.{_NAMES[dtype]}"


def spell_pointer(dtype: DType) -> str:
    """The type of a pointer to elements, as the compiler wants it in a signature."""
    return _POINTERS[dtype]


def number_text(dtype: DType, number: float) -> str:
    """A number as Python spells it, rounded to a type."""
    if dtype is boolean:
        return "1" if number else "0"
    if not dtype.is_float:
        return str(_whole(dtype, number))
    with np.errstate(over="ignore"):
        rounded = float(np.asarray(number).astype(dtype.numpy).astype(np.float64))
    if math.isfinite(rounded):
        return repr(rounded)
    return f'float("{rounded}")'


def literal(dtype: DType, number: float, shape: tuple[int, ...] = ()) -> str:
    """A number of a type, in all elements of a block."""
    text = number_text(dtype, number)
    if dtype is bf16:  # not all versions of the language have constants of it
        return f"tl.full({shape}, {text}, tl.float32).to(tl.bfloat16)"
    return f"tl.full({shape}, {text}, {spell(dtype)})"


def _whole(dtype: DType, number: float) -> int:
    if number != int(number):
        raise TypeError(f"{number} is no {dtype}")
    whole = int(number)
    return whole if dtype.is_signed else whole % (1 << dtype.bits)
