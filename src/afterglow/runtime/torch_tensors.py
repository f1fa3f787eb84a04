"""PyTorch's tensors as arrays in the same memory and back, without importing PyTorch.

Whoever has a tensor has imported PyTorch already.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import numpy as np

from afterglow.support.errors import UsageError
from afterglow.types import Array, DType
from afterglow.types.dtype import DTYPES

_NAMES = {dtype.numpy_name: dtype for dtype in DTYPES.values()}
"""PyTorch names element types as NumPy does."""


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor of PyTorch, or one derived from it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def array_of(tensor: Any) -> Array:
    """The elements of a tensor, where they lie if that is in the memory of the CPU.

    Those of a type that NumPy has not are of a type of `ml_dtypes`.
    """
    try:
        return _array_of(tensor.detach())
    except (NotImplementedError, RuntimeError, KeyError):
        kind = f"{tensor.dtype}, {tensor.layout}, on the device '{tensor.device}'"
        raise UsageError(
            f"a tensor that has no elements in rows and columns was given: {kind}",
            help="give a plain tensor: to_dense() of a sparse one, dequantize() of a quantized one",
        ) from None


def is_plain(tensor: Any) -> bool:
    """Whether the elements of a tensor lie in the memory of the CPU as they are."""
    return tensor.is_cpu and not tensor.is_conj() and not tensor.is_neg()


def dtype_of(tensor: Any) -> DType:
    """The element type of a tensor."""
    found = _dtype_like(tensor.dtype)
    if found is None:
        raise UsageError(
            f"a tensor of {tensor.dtype} was given, which no input holds",
            help="convert it: tensor.to(torch.float32)",
        )
    return found


@cache
def _dtype_like(dtype: Any) -> DType | None:
    return _NAMES.get(str(dtype).removeprefix("torch."))


def _array_of(plain: Any) -> Array:
    if not is_plain(plain):
        plain = plain.resolve_conj().resolve_neg().cpu()
    try:
        array: Array = plain.numpy()
    except TypeError:
        torch, dtype = sys.modules["torch"], _NAMES[str(plain.dtype).removeprefix("torch.")]
        plain = plain.view(torch.uint8 if plain.element_size() == 1 else torch.int16)
        array = plain.numpy().view(dtype.numpy)
    return array


def tensor_of(array: Array) -> Any:
    """The elements of an array as a tensor in the same memory."""
    torch: Any = sys.modules["torch"]
    if array.dtype.isbuiltin == 1:
        return torch.from_numpy(array)
    plain = torch.from_numpy(array.view(f"i{array.dtype.itemsize}"))
    return plain.view(getattr(torch, np.dtype(array.dtype).name))


def device_tensor_of(array: Any) -> Any:
    """An array on a device, by DLPack, as a tensor in the same memory."""
    return sys.modules["torch"].from_dlpack(array)
