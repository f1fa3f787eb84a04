"""Element types: ONNX's numbers and ours."""

from __future__ import annotations

from onnx import TensorProto

from afterglow.support.errors import ModelError, UnsupportedError
from afterglow.types import DType
from afterglow.types import dtype as d

DTYPE_OF_ONNX: dict[int, DType] = {
    TensorProto.FLOAT: d.f32,
    TensorProto.UINT8: d.u8,
    TensorProto.INT8: d.i8,
    TensorProto.UINT16: d.u16,
    TensorProto.INT16: d.i16,
    TensorProto.INT32: d.i32,
    TensorProto.INT64: d.i64,
    TensorProto.STRING: d.string,
    TensorProto.BOOL: d.boolean,
    TensorProto.FLOAT16: d.f16,
    TensorProto.DOUBLE: d.f64,
    TensorProto.UINT32: d.u32,
    TensorProto.UINT64: d.u64,
    TensorProto.COMPLEX64: d.c64,
    TensorProto.COMPLEX128: d.c128,
    TensorProto.BFLOAT16: d.bf16,
    TensorProto.FLOAT8E4M3FN: d.f8e4m3fn,
    TensorProto.FLOAT8E4M3FNUZ: d.f8e4m3fnuz,
    TensorProto.FLOAT8E5M2: d.f8e5m2,
    TensorProto.FLOAT8E5M2FNUZ: d.f8e5m2fnuz,
    TensorProto.FLOAT8E8M0: d.f8e8m0,
    TensorProto.FLOAT4E2M1: d.f4e2m1,
    TensorProto.INT4: d.i4,
    TensorProto.UINT4: d.u4,
    TensorProto.INT2: d.i2,
    TensorProto.UINT2: d.u2,
}

ONNX_OF_DTYPE: dict[DType, int] = {dtype: number for number, dtype in DTYPE_OF_ONNX.items()}


def dtype_of(number: int) -> DType:
    """The element type that ONNX numbers so."""
    if number in DTYPE_OF_ONNX:
        return DTYPE_OF_ONNX[number]
    if number in TensorProto.DataType.values() and number != TensorProto.UNDEFINED:
        name = TensorProto.DataType.Name(number).lower()
        raise UnsupportedError(f"unsupported element type {name}")
    raise ModelError(f"there is no element type {number}")
