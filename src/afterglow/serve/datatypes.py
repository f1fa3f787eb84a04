"""Element types as the Open Inference Protocol names and encodes them."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from afterglow.serve.errors import invalid
from afterglow.types import Array, DType
from afterglow.types.dtype import dtype_named

DATATYPES = {
    "bool": "BOOL",
    "u8": "UINT8",
    "u16": "UINT16",
    "u32": "UINT32",
    "u64": "UINT64",
    "i8": "INT8",
    "i16": "INT16",
    "i32": "INT32",
    "i64": "INT64",
    "f16": "FP16",
    "bf16": "BF16",
    "f32": "FP32",
    "f64": "FP64",
    "str": "BYTES",
}
"""The datatype of each element type that the protocol has."""
_LENGTH = struct.Struct("<I")


def datatype_of(dtype: DType | None) -> str | None:
    """The datatype of an element type; None if the protocol has none."""
    return None if dtype is None else DATATYPES.get(dtype.name)


@cache
def numpy_of(datatype: str) -> np.dtype[Any] | None:
    """How NumPy stores a datatype; None if there is no such datatype."""
    found = next((own for own, name in DATATYPES.items() if name == datatype), None)
    return None if found is None else dtype_named(found).numpy


def from_raw(datatype: str, shape: tuple[int, ...], raw: memoryview, what: str) -> Array:
    """The tensor that bytes encode, where they lie; it need not be aligned, which runs allow."""
    dtype = checked_dtype(datatype, what)
    count = elements(shape, what)
    if datatype == "BYTES":
        return np.array(_unpacked(raw, count, what), object).reshape(shape)
    if len(raw) != count * dtype.itemsize:
        raise invalid(
            f"{what} has {len(raw):,} bytes, {datatype} of shape {list(shape)} has "
            f"{count * dtype.itemsize:,}"
        )
    array = np.frombuffer(raw, dtype).reshape(shape)
    if datatype == "BOOL" and count and array.view(np.uint8).max() > 1:
        raise invalid(f"{what} has bytes other than 0 and 1, which are not BOOL")
    return array


def checked_dtype(datatype: Any, what: str) -> np.dtype[Any]:
    """How NumPy stores a datatype; an error if there is none of this name."""
    dtype = numpy_of(datatype) if isinstance(datatype, str) else None
    if dtype is None:
        raise invalid(
            f"{what} has the datatype {str(datatype)[:40]!r}, which is not known",
            help=f"known are {', '.join(DATATYPES.values())}",
        )
    return dtype


def elements(shape: Iterable[Any], what: str) -> int:
    """The number of elements of a shape; an error unless it is one."""
    count, room = 1, 1
    for extent in shape:
        if type(extent) is not int or extent < 0:
            raise invalid(f"{what} has the extent {str(extent)[:40]!r}: extents are 0 or more")
        count *= extent
        room *= (
            extent or 1
        )  # NumPy wants an array without elements to have an extent that fits, too
        if room > 1 << 40:
            raise invalid(f"{what} has a shape of more than {1 << 40:,} elements")
    return count


def _unpacked(raw: memoryview, count: int, what: str) -> list[str]:
    """The strings of a BYTES tensor: each four bytes with its length, and then its bytes."""
    if count > len(raw) // _LENGTH.size:
        raise invalid(f"{what} has {len(raw):,} bytes, too few for {count:,} strings")
    found, place = [], 0
    for _ in range(count):
        if place + _LENGTH.size > len(raw):
            raise invalid(f"{what} ends before its last string")
        (length,) = _LENGTH.unpack_from(raw, place)
        place += _LENGTH.size
        if length > len(raw) - place:
            raise invalid(f"{what} has a string of {length:,} bytes, but {len(raw) - place:,} left")
        found.append(as_text(bytes(raw[place : place + length]), what))
        place += length
    if place != len(raw):
        raise invalid(f"{what} has {len(raw) - place:,} bytes after its last string")
    return found


def as_text(data: bytes, what: str) -> str:
    """The text that bytes in UTF-8 are."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise invalid(f"{what} has a string that is not UTF-8") from None


def to_raw(array: Array) -> bytes:
    """The bytes that encode a tensor."""
    if array.dtype.hasobject:
        parts = (text.encode() for text in map(str, array.ravel()))
        return b"".join(_LENGTH.pack(len(part)) + part for part in parts)
    return array.tobytes()


def from_list(datatype: str, shape: tuple[int, ...], data: Any, what: str) -> Array:
    """The tensor that a JSON list has, flat or nested."""
    dtype = checked_dtype(datatype, what)
    count = elements(shape, what)
    if not isinstance(data, list):
        raise invalid(f"{what} has no list as its data")
    if datatype == "BYTES":
        flat = np.array(_flat_texts(data, what), object)
    else:
        flat = _numbers(datatype, dtype, data, what).ravel()
    if flat.size != count:
        raise invalid(f"{what} has {flat.size:,} elements, its shape {list(shape)} has {count:,}")
    return flat.reshape(shape)


def _flat_texts(data: list[Any], what: str) -> list[str]:
    texts: list[str] = []
    pending = [iter(data)]
    while pending:
        for item in pending[-1]:
            if isinstance(item, list):
                pending.append(iter(item))
                break
            if not isinstance(item, str):
                raise invalid(f"{what} is BYTES and has data that are not strings")
            texts.append(item)
        else:
            pending.pop()
    return texts


def _numbers(datatype: str, dtype: np.dtype[Any], data: list[Any], what: str) -> Array:
    """Numbers of a list, converted if their kind is that of the datatype and they fit."""
    try:
        found = np.array(data)
    except (ValueError, OverflowError, RecursionError):
        raise invalid(f"{what} has lists of different lengths as its data") from None
    if not found.size:
        return found.astype(dtype)
    if found.dtype.kind not in (
        "b" if datatype == "BOOL" else "iu" if dtype.kind in "iu" else "iuf"
    ):
        raise invalid(f"{what} is {datatype} and has other data: {str(data[0])[:40]}")
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if int(found.min()) < limits.min or int(found.max()) > limits.max:
            raise invalid(f"{what} is {datatype} and has numbers that do not fit")
    with np.errstate(over="ignore"):
        return found.astype(dtype)


def to_list(array: Array) -> list[Any]:
    """A tensor as a flat list that JSON can hold."""
    if array.dtype.hasobject:
        return [str(text) for text in array.ravel()]
    if array.dtype.kind not in "biuf":
        array = array.astype(np.float32)
    listed: list[Any] = array.ravel().tolist()
    return listed
