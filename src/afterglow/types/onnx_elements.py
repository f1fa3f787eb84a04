"""Element types: ONNX's numbers and names, and ours."""

from __future__ import annotations

from afterglow.support.errors import ModelError, UnsupportedError
from afterglow.types import dtype as d
from afterglow.types.dtype import DType

_TYPES: dict[str, tuple[int, DType]] = {
    "FLOAT": (1, d.f32),
    "UINT8": (2, d.u8),
    "INT8": (3, d.i8),
    "UINT16": (4, d.u16),
    "INT16": (5, d.i16),
    "INT32": (6, d.i32),
    "INT64": (7, d.i64),
    "STRING": (8, d.string),
    "BOOL": (9, d.boolean),
    "FLOAT16": (10, d.f16),
    "DOUBLE": (11, d.f64),
    "UINT32": (12, d.u32),
    "UINT64": (13, d.u64),
    "COMPLEX64": (14, d.c64),
    "COMPLEX128": (15, d.c128),
    "BFLOAT16": (16, d.bf16),
    "FLOAT8E4M3FN": (17, d.f8e4m3fn),
    "FLOAT8E4M3FNUZ": (18, d.f8e4m3fnuz),
    "FLOAT8E5M2": (19, d.f8e5m2),
    "FLOAT8E5M2FNUZ": (20, d.f8e5m2fnuz),
    "UINT4": (21, d.u4),
    "INT4": (22, d.i4),
    "FLOAT4E2M1": (23, d.f4e2m1),
    "FLOAT8E8M0": (24, d.f8e8m0),
    "UINT2": (25, d.u2),
    "INT2": (26, d.i2),
}
"""By the name in ONNX: its number, and our type."""

_LACKING = {27: "float6e2m3", 28: "float6e3m2"}
"""ONNX's names of types that are not supported."""

DTYPE_OF_ONNX: dict[int, DType] = dict(_TYPES.values())

ONNX_OF_DTYPE: dict[DType, int] = {dtype: number for number, dtype in DTYPE_OF_ONNX.items()}


ONNX_NAMES: dict[DType, str] = {dtype: name for name, (_, dtype) in _TYPES.items()}


def dtype_of(number: int) -> DType:
    """The element type that ONNX numbers so."""
    if number in _LACKING:
        raise UnsupportedError(f"unsupported element type {_LACKING[number]}")
    if number not in DTYPE_OF_ONNX:
        raise ModelError(f"there is no element type {number}")
    return DTYPE_OF_ONNX[number]


def dtype_named(name: str) -> DType:
    """The element type that ONNX calls so, in capitals."""
    if name.lower() in _LACKING.values():
        raise UnsupportedError(f"unsupported element type {name.lower()}")
    if name not in _TYPES:
        raise ModelError(f"there is no element type {name!r}")
    return _TYPES[name][1]
