"""Element types: what one element of a tensor is, and how NumPy stores it.

Types narrower than a byte are stored one element a byte, as `ml_dtypes` does.
"""

from __future__ import annotations

from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np

from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.packages import needed_for


class Kind(Enum):
    """The family of an element type."""

    FLOAT = "float"
    INT = "signed integer"
    UINT = "unsigned integer"
    BOOL = "boolean"
    COMPLEX = "complex"
    STRING = "string"


@dataclass(frozen=True, repr=False, eq=False)
class DType:
    """An element type; there is one object for each, so `is` and `==` agree."""

    name: str
    kind: Kind
    bits: int
    numpy_name: str
    """What NumPy calls it, or `ml_dtypes` if that has it."""

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type that stores it."""
        try:
            return np.dtype(self.numpy_name)
        except TypeError:
            return _extended(self.numpy_name)

    @cached_property
    def is_float(self) -> bool:
        """Whether it holds real numbers with an exponent."""
        return self.kind is Kind.FLOAT

    @cached_property
    def is_integer(self) -> bool:
        """Whether it holds integers, signed or unsigned; booleans do not count."""
        return self.kind in (Kind.INT, Kind.UINT)

    @cached_property
    def is_signed(self) -> bool:
        """Whether it holds negative numbers."""
        return self.kind not in (Kind.UINT, Kind.BOOL, Kind.STRING)

    @cached_property
    def is_number(self) -> bool:
        """Whether arithmetic is defined on it."""
        return self.kind not in (Kind.BOOL, Kind.STRING)

    @cached_property
    def is_narrow_float(self) -> bool:
        """Whether arithmetic on it is done in float32 and rounded once at the end."""
        return self.is_float and self.bits < 32

    @cached_property
    def itemsize(self) -> int:
        """Bytes that one element takes in memory (a string's characters live on the host)."""
        return self.numpy.itemsize

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest integer of the type, sub-byte types included."""
        assert self.is_integer
        if self.kind is Kind.UINT:
            return 0, (1 << self.bits) - 1
        return -(1 << self.bits - 1), (1 << self.bits - 1) - 1

    @cached_property
    def finite_limits(self) -> tuple[float, float]:
        """The least and the greatest finite number of a float type."""
        assert self.is_float
        is_own = self.numpy.isbuiltin == 1
        info: Any = np.finfo(self.numpy) if is_own else _ml_dtypes().finfo(self.numpy)
        return float(info.min), float(info.max)

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__

    def __reduce__(self) -> tuple[Any, ...]:
        """Its name alone: a copy is the one object."""
        return dtype_named, (self.name,)

    @staticmethod
    def of(dtype: Any) -> DType:
        """Return the element type that holds a NumPy dtype's values."""
        wanted = np.dtype(dtype)
        if wanted.kind in "US":
            return string
        found = _BY_NUMPY_NAME.get(wanted.name)
        if found is None or found.numpy != wanted:  # of the same name are those of other byte order
            raise TypeError(f"no element type for NumPy's {wanted}")
        return found


def dtype_named(name: str) -> DType:
    """The element type of a name."""
    return DTYPES[name]


def _extended(name: str) -> np.dtype[Any]:
    """An element type that `ml_dtypes` adds to NumPy."""
    dtype: np.dtype[Any] = np.dtype(getattr(_ml_dtypes(), name))
    return dtype


def _ml_dtypes() -> Any:
    with needed_for("an element type that NumPy lacks"):
        import ml_dtypes  # noqa: PLC0415  takes as long to load as a model, and few models need it

    return ml_dtypes


f64 = DType("f64", Kind.FLOAT, 64, "float64")
f32 = DType("f32", Kind.FLOAT, 32, "float32")
f16 = DType("f16", Kind.FLOAT, 16, "float16")
bf16 = DType("bf16", Kind.FLOAT, 16, "bfloat16")
f8e4m3fn = DType("f8e4m3fn", Kind.FLOAT, 8, "float8_e4m3fn")
f8e4m3fnuz = DType("f8e4m3fnuz", Kind.FLOAT, 8, "float8_e4m3fnuz")
f8e5m2 = DType("f8e5m2", Kind.FLOAT, 8, "float8_e5m2")
f8e5m2fnuz = DType("f8e5m2fnuz", Kind.FLOAT, 8, "float8_e5m2fnuz")
f8e8m0 = DType("f8e8m0", Kind.FLOAT, 8, "float8_e8m0fnu")
f4e2m1 = DType("f4e2m1", Kind.FLOAT, 4, "float4_e2m1fn")
i2 = DType("i2", Kind.INT, 2, "int2")
i4 = DType("i4", Kind.INT, 4, "int4")
i8 = DType("i8", Kind.INT, 8, "int8")
i16 = DType("i16", Kind.INT, 16, "int16")
i32 = DType("i32", Kind.INT, 32, "int32")
i64 = DType("i64", Kind.INT, 64, "int64")
u2 = DType("u2", Kind.UINT, 2, "uint2")
u4 = DType("u4", Kind.UINT, 4, "uint4")
u8 = DType("u8", Kind.UINT, 8, "uint8")
u16 = DType("u16", Kind.UINT, 16, "uint16")
u32 = DType("u32", Kind.UINT, 32, "uint32")
u64 = DType("u64", Kind.UINT, 64, "uint64")
boolean = DType("bool", Kind.BOOL, 8, "bool")
c64 = DType("c64", Kind.COMPLEX, 64, "complex64")
c128 = DType("c128", Kind.COMPLEX, 128, "complex128")
string = DType("str", Kind.STRING, 64, "object")

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
_BY_NUMPY_NAME = {dtype.numpy_name: dtype for dtype in DTYPES.values()}
