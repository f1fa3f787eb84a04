"""PyTorch's element types, by their names there, as ours."""

from __future__ import annotations

from typing import Any

from afterglow.support.errors import UnsupportedError
from afterglow.types import DType
from afterglow.types.dtype import (
    bf16,
    boolean,
    c64,
    c128,
    f4e2m1,
    f8e4m3fn,
    f8e4m3fnuz,
    f8e5m2,
    f8e5m2fnuz,
    f8e8m0,
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

_ELEMENTS = {
    "float64": f64,
    "float32": f32,
    "float16": f16,
    "bfloat16": bf16,
    "float8_e4m3fn": f8e4m3fn,
    "float8_e4m3fnuz": f8e4m3fnuz,
    "float8_e5m2": f8e5m2,
    "float8_e5m2fnuz": f8e5m2fnuz,
    "float8_e8m0fnu": f8e8m0,
    "float4_e2m1fn_x2": f4e2m1,
    "int64": i64,
    "int32": i32,
    "int16": i16,
    "int8": i8,
    "uint64": u64,
    "uint32": u32,
    "uint16": u16,
    "uint8": u8,
    "bool": boolean,
    "complex64": c64,
    "complex128": c128,
}
"""By what comes after `torch.` in the name of a type."""


def element_type(dtype: Any) -> DType:
    """Our element type for a `torch.dtype`."""
    found = _ELEMENTS.get(str(dtype).removeprefix("torch."))
    if found is None:
        raise UnsupportedError(f"unsupported element type {dtype}")
    return found


def torch_name(dtype: DType) -> str:
    """What comes after `torch.` in the name of PyTorch's type for ours."""
    found = next((name for name, ours in _ELEMENTS.items() if ours is dtype), None)
    if found is None:
        raise UnsupportedError(f"PyTorch has no element type {dtype}")
    return found
