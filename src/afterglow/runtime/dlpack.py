"""DLPack: arrays of other libraries, read in the memory where they lie.

The structures are those of the standard, so that element types that NumPy lacks are read as well.
"""

from __future__ import annotations

import ctypes
from math import prod
from typing import Any

import numpy as np

from afterglow.types import Array, DType
from afterglow.types import dtype as d
from afterglow.types.dtype import DTYPES, Kind

HOST_DEVICES = (1, 3, 11)
"""Kinds of devices whose memory the CPU reads: its own, and that pinned by CUDA and by ROCm."""
REFUSALS = (AttributeError, BufferError, NotImplementedError, RuntimeError, TypeError, ValueError)
"""What libraries raise for arrays that they do not exchange."""

_CPU = (1, 0)
_VERSION = (1, 1)
_READ_ONLY = 1
_CODES = {Kind.INT: 0, Kind.UINT: 1, Kind.FLOAT: 2, Kind.COMPLEX: 5, Kind.BOOL: 6}
_NARROW_FLOATS = {
    (4, 16): d.bf16,
    (10, 8): d.f8e4m3fn,
    (11, 8): d.f8e4m3fnuz,
    (12, 8): d.f8e5m2,
    (13, 8): d.f8e5m2fnuz,
    (14, 8): d.f8e8m0,
}
_ELEMENTS: dict[tuple[int, int], DType] = _NARROW_FLOATS | {
    (_CODES[dtype.kind], dtype.bits): dtype
    for dtype in DTYPES.values()
    if dtype.kind in _CODES and dtype.bits >= 8 and dtype not in _NARROW_FLOATS.values()
}
"""Element types by the standard's code and number of bits."""
CODES = {dtype: code for code, dtype in _ELEMENTS.items()}
"""The standard's code and number of bits of element types."""


def is_on_host(value: Any) -> bool:
    """Whether the elements lie in memory that the CPU reads."""
    kind, _ = value.__dlpack_device__()
    return int(kind) in HOST_DEVICES


def read_in_place(value: Any) -> Array:
    """The elements of an array on the host, where they lie; one of `REFUSALS` if that cannot be."""
    try:
        capsule = value.__dlpack__(max_version=_VERSION)
    except TypeError:  # of a library that is older than versions
        capsule = value.__dlpack__()
    return _array_in(capsule)


def read_copy(value: Any) -> Array:
    """The elements of an array on another device, copied; one of `REFUSALS` if that cannot be."""
    return _array_in(value.__dlpack__(max_version=_VERSION, dl_device=_CPU))


class DLTensor(ctypes.Structure):
    """The standard's `DLTensor`."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class VersionedTensor(ctypes.Structure):
    """The standard's `DLManagedTensorVersioned`; one without a version begins with the tensor."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    )


class ManagedTensor(ctypes.Structure):
    """The standard's `DLManagedTensor`, which has no version."""

    _fields_ = (
        ("tensor", DLTensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class _Memory:
    """The memory of an array, which lives as long as the capsule that it came in."""

    def __init__(self, capsule: Any, interface: dict[str, Any]) -> None:
        self.capsule = capsule
        self.__array_interface__ = interface


def opened(capsule: Any) -> tuple[DLTensor, DType, bool]:
    """The tensor in a capsule, its element type, and whether it must not be written.

    What it says of its memory holds as long as the capsule lives.
    """
    if _is_valid(capsule, b"dltensor_versioned"):
        whole = VersionedTensor.from_address(_pointer(capsule, b"dltensor_versioned"))
        tensor, is_read_only = whole.tensor, bool(whole.flags & _READ_ONLY)
    else:
        tensor, is_read_only = DLTensor.from_address(_pointer(capsule, b"dltensor")), True
    dtype = _ELEMENTS.get((tensor.code, tensor.bits))
    if dtype is None or tensor.lanes != 1:
        raise BufferError(f"no element type has code {tensor.code} and {tensor.bits} bits")
    return tensor, dtype, is_read_only


def _array_in(capsule: Any) -> Array:
    """The array in a capsule; it cannot be written unless the capsule says that it can."""
    tensor, dtype, is_read_only = opened(capsule)
    size, shape = dtype.bits // 8, tuple(tensor.shape[: tensor.ndim])
    strides = tuple(size * n for n in tensor.strides[: tensor.ndim]) if tensor.strides else None
    if not prod(shape):
        return np.empty(shape, dtype.numpy)
    interface = {
        "version": 3,
        "shape": shape,
        "strides": strides,
        "typestr": f"|V{size}",
        "data": ((tensor.data or 0) + tensor.byte_offset, is_read_only),
    }
    return np.asarray(_Memory(capsule, interface)).view(dtype.numpy)


_is_valid: Any = ctypes.pythonapi["PyCapsule_IsValid"]
_is_valid.argtypes, _is_valid.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_int
_pointer: Any = ctypes.pythonapi["PyCapsule_GetPointer"]
_pointer.argtypes, _pointer.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
