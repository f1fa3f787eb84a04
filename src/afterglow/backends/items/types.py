"""Which element types kernels compute with."""

from __future__ import annotations

from afterglow.types.dtype import (
    DType,
    bf16,
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

_ARITHMETIC = frozenset((f32, f64, i8, u8, i16, u16, i32, u32, i64, u64))


def is_arithmetic(dtype: DType) -> bool:
    """Whether kernels compute with it; the others are only moved and converted."""
    return dtype in _ARITHMETIC


def is_number(dtype: DType) -> bool:
    """Whether kernels compute with elements of it, in that type or in f32."""
    return is_arithmetic(computed(dtype))


def computed(dtype: DType) -> DType:
    """The type that kernels compute with for elements of a type: f32 for floats of 16 bits."""
    return f32 if dtype in (f16, bf16) else dtype
