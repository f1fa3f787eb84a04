"""Element types of TFLite files, and how integers stand for real numbers in them."""

from __future__ import annotations

from afterglow.support.errors import UnsupportedError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import DType
from afterglow.types import dtype as dtypes

_TYPES: dict[str, DType] = {
    "FLOAT32": dtypes.f32,
    "FLOAT16": dtypes.f16,
    "INT32": dtypes.i32,
    "UINT8": dtypes.u8,
    "INT64": dtypes.i64,
    "STRING": dtypes.string,
    "BOOL": dtypes.boolean,
    "INT16": dtypes.i16,
    "COMPLEX64": dtypes.c64,
    "INT8": dtypes.i8,
    "FLOAT64": dtypes.f64,
    "COMPLEX128": dtypes.c128,
    "UINT64": dtypes.u64,
    "UINT32": dtypes.u32,
    "UINT16": dtypes.u16,
    "INT4": dtypes.i4,
    "BFLOAT16": dtypes.bf16,
}


@dataclass(frozen=True)
class Quantization:
    """How integers of a tensor stand for real numbers: (integer - zero point) scale.

    Of several scales, each belongs to an index along `axis`.
    """

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int = 0


def find_dtype(name: str) -> DType | None:
    """The element type that the schema calls so; None if tensors of it hold no elements."""
    return _TYPES.get(name)


def dtype_of(name: str) -> DType:
    """The same, which must be there."""
    found = _TYPES.get(name)
    if found is None:
        raise UnsupportedError(f"there are no tensors of {name}")
    return found
