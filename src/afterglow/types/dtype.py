"""Element types: what one element of a tensor is, and how NumPy holds it.

Types narrower than a byte are held one element a byte, as `ml_dtypes` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import ml_dtypes
import numpy as np


class Kind(Enum):
    """The family of an element type."""

    FLOAT = "float"
    INT = "signed integer"
    UINT = "unsigned integer"
    BOOL = "boolean"
    COMPLEX = "complex"
    STRING = "string"


@dataclass(frozen=True, repr=False)
class DType:
    """An element type; one object for each, so compare with `is` or `==` as you like."""

    name: str
    kind: Kind
    bits: int
    numpy: np.dtype[Any]

    @property
    def is_float(self) -> bool:
        """Whether it holds real numbers with an exponent."""
        return self.kind is Kind.FLOAT

    @property
    def is_integer(self) -> bool:
        """Whether it holds integers, signed or not (booleans are none)."""
        return self.kind in (Kind.INT, Kind.UINT)

    @property
    def is_signed(self) -> bool:
        """Whether it holds negative numbers."""
        return self.kind not in (Kind.UINT, Kind.BOOL, Kind.STRING)

    @property
    def is_number(self) -> bool:
        """Whether arithmetic is defined on it."""
        return self.kind not in (Kind.BOOL, Kind.STRING)

    @property
    def is_narrow_float(self) -> bool:
        """Whether arithmetic on it is done in float32 and rounded once at the end."""
        return self.is_float and self.bits < 32

    @property
    def itemsize(self) -> int:
        """Bytes that one element takes in memory (a string's characters live on the host)."""
        return self.numpy.itemsize

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__

    @staticmethod
    def of(dtype: Any) -> DType:
        """Return the element type that holds a NumPy dtype's values."""
        wanted = np.dtype(dtype)
        if wanted.kind in "US":
            return string
        try:
            return _BY_NUMPY[wanted]
        except KeyError:
            raise TypeError(f"no element type for NumPy's {wanted}") from None


def _declare(name: str, kind: Kind, bits: int, numpy: Any) -> DType:
    return DType(name, kind, bits, np.dtype(numpy))


f64 = _declare("f64", Kind.FLOAT, 64, np.float64)
f32 = _declare("f32", Kind.FLOAT, 32, np.float32)
f16 = _declare("f16", Kind.FLOAT, 16, np.float16)
bf16 = _declare("bf16", Kind.FLOAT, 16, ml_dtypes.bfloat16)
f8e4m3fn = _declare("f8e4m3fn", Kind.FLOAT, 8, ml_dtypes.float8_e4m3fn)
f8e4m3fnuz = _declare("f8e4m3fnuz", Kind.FLOAT, 8, ml_dtypes.float8_e4m3fnuz)
f8e5m2 = _declare("f8e5m2", Kind.FLOAT, 8, ml_dtypes.float8_e5m2)
f8e5m2fnuz = _declare("f8e5m2fnuz", Kind.FLOAT, 8, ml_dtypes.float8_e5m2fnuz)
f8e8m0 = _declare("f8e8m0", Kind.FLOAT, 8, ml_dtypes.float8_e8m0fnu)
f4e2m1 = _declare("f4e2m1", Kind.FLOAT, 4, ml_dtypes.float4_e2m1fn)
i2 = _declare("i2", Kind.INT, 2, ml_dtypes.int2)
i4 = _declare("i4", Kind.INT, 4, ml_dtypes.int4)
i8 = _declare("i8", Kind.INT, 8, np.int8)
i16 = _declare("i16", Kind.INT, 16, np.int16)
i32 = _declare("i32", Kind.INT, 32, np.int32)
i64 = _declare("i64", Kind.INT, 64, np.int64)
u2 = _declare("u2", Kind.UINT, 2, ml_dtypes.uint2)
u4 = _declare("u4", Kind.UINT, 4, ml_dtypes.uint4)
u8 = _declare("u8", Kind.UINT, 8, np.uint8)
u16 = _declare("u16", Kind.UINT, 16, np.uint16)
u32 = _declare("u32", Kind.UINT, 32, np.uint32)
u64 = _declare("u64", Kind.UINT, 64, np.uint64)
boolean = _declare("bool", Kind.BOOL, 8, np.bool_)
c64 = _declare("c64", Kind.COMPLEX, 64, np.complex64)
c128 = _declare("c128", Kind.COMPLEX, 128, np.complex128)
string = _declare("str", Kind.STRING, 64, np.object_)

DTYPES: dict[str, DType] = {
    dtype.name: dtype
    for dtype in (
        *(f64, f32, f16, bf16),
        *(f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz, f8e8m0, f4e2m1),
        *(i2, i4, i8, i16, i32, i64),
        *(u2, u4, u8, u16, u32, u64),
        *(boolean, c64, c128, string),
    )
}
_BY_NUMPY = {dtype.numpy: dtype for dtype in DTYPES.values()}
