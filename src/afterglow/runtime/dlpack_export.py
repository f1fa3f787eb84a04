"""DLPack capsules for memory of our own, which other libraries then use where it lies."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from afterglow.runtime.dlpack import CODES, DLTensor, ManagedTensor, VersionedTensor
from afterglow.types import DType

_VERSION = (1, 0)
_NAME, _VERSIONED_NAME = b"dltensor", b"dltensor_versioned"


def capsule_of(
    owner: Any,
    address: int,
    dtype: DType,
    shape: Sequence[int],
    device: tuple[int, int],
    *,
    versioned: bool,
) -> Any:
    """A capsule with the elements at an address, in order; the owner lives as long as its user."""
    extents = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    tensor = DLTensor(
        address, *device, len(shape), *CODES[dtype], 1, ctypes.cast(extents, _EXTENTS), None, 0
    )
    deleter = ctypes.cast(_DELETER, ctypes.c_void_p)
    managed: Any
    if versioned:
        managed = VersionedTensor(*_VERSION, None, deleter, 0, tensor)
    else:
        managed = ManagedTensor(tensor, None, deleter)
    place = ctypes.addressof(managed)
    _EXPORTED[place] = (owner, managed, extents)
    return _new(place, _VERSIONED_NAME if versioned else _NAME, _DESTRUCTOR)


def _release(place: int) -> None:
    """What the user of a tensor calls when it is done."""
    _EXPORTED.pop(place, None)


def _drop(capsule: int) -> None:
    """What Python calls when a capsule goes; one that was used has another name by then."""
    for name in (_NAME, _VERSIONED_NAME):
        if _is_valid(capsule, name):
            _release(_pointer(capsule, name))


_EXPORTED: dict[int, tuple[Any, ...]] = {}
"""What lives as long as somebody uses it, by the addresses of the structures."""
_EXTENTS = ctypes.POINTER(ctypes.c_int64)
_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_release)
_DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_drop)
# the capsule is going: its address is passed, because a reference to it must not be made
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
