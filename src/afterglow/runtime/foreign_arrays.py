"""Arrays of other libraries as inputs and outputs: PyTorch's, and all that speak DLPack."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from afterglow.runtime import torch_tensors
from afterglow.runtime.dlpack import REFUSALS, is_on_host, read_copy, read_in_place
from afterglow.support.errors import UsageError
from afterglow.types import Array


def is_foreign(value: Any) -> bool:
    """Whether a value is an array of a library other than NumPy."""
    if isinstance(value, (np.ndarray, np.generic)):
        return False
    return torch_tensors.is_tensor(value) or hasattr(value, "__dlpack_device__")


def array_of(value: Any) -> Array:
    """The elements of such an array: where they lie on the host, copied from another device."""
    if torch_tensors.is_tensor(value):
        return torch_tensors.array_of(value)
    try:
        return read_in_place(value) if is_on_host(value) else read_copy(value)
    except REFUSALS:
        pass
    try:
        return np.asarray(value)
    except REFUSALS:
        raise UsageError(
            f"the elements of this {_kind(value)} cannot be read: they are on another device, or "
            "of a type that is not exchanged",
            help="copy it to the memory of the host first",
        ) from None


def shared_array(value: Any) -> Array:
    """The elements of such an array where they lie, never a copy: it is to be written."""
    try:
        if torch_tensors.is_tensor(value) and torch_tensors.is_plain(value):
            return torch_tensors.array_of(value)
        if not torch_tensors.is_tensor(value) and is_on_host(value):
            return read_in_place(value)
    except REFUSALS:
        pass
    raise UsageError(
        f"this {_kind(value)} cannot be written: its elements are not in the memory of the host",
        help="give an array of NumPy, or a tensor on the CPU",
    )


def library_of(values: Iterable[Any]) -> Callable[[Array], Any] | None:
    """What makes an array one of the library that the first foreign value is of, if there is one.

    It keeps the memory where the library can; None if that has no arrays of its own.
    """
    for value in values:
        if type(value) is np.ndarray or not is_foreign(value):
            continue
        if torch_tensors.is_tensor(value):
            return torch_tensors.tensor_of
        if hasattr(value, "__array_namespace__"):
            namespace = value.__array_namespace__()
            return lambda array: _in_namespace(namespace, array)
    return None


def device_library_of(values: Iterable[Any]) -> Callable[[Any], Any] | None:
    """The same for arrays on a device, which the library takes by DLPack."""
    for value in values:
        if type(value) is np.ndarray or not is_foreign(value):
            continue
        if torch_tensors.is_tensor(value):
            return torch_tensors.device_tensor_of
        if hasattr(value, "__array_namespace__"):
            from_dlpack: Callable[[Any], Any] = value.__array_namespace__().from_dlpack
            return from_dlpack
    return None


def _in_namespace(namespace: Any, array: Array) -> Any:
    try:
        return namespace.from_dlpack(array)
    except REFUSALS:  # of a device without the memory of the host, or of elements NumPy lacks
        return namespace.asarray(array)


def _kind(value: Any) -> str:
    return f"{type(value).__module__.partition('.')[0]} {type(value).__name__}"
