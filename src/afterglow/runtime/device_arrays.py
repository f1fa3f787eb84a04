"""Arrays of other libraries in the memory of a GPU: where they lie, and when they are ready.

PyTorch's tensors are asked directly; others by `__cuda_array_interface__` or DLPack.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from afterglow.runtime import torch_tensors
from afterglow.runtime.dlpack import REFUSALS, opened
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass

CUDA_KINDS = (2, 13)
"""What DLPack calls memory of GPUs of NVIDIA: their own, and that which is managed."""
DEFAULT_STREAM = 1
"""What both protocols call the default stream, which waits for all others."""
_INTERFACE = "__cuda_array_interface__"


@dataclass(frozen=True)
class DeviceTensor:
    """Elements in the memory of a GPU."""

    address: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_dense: bool
    """Whether they lie in order, without gaps."""
    device: int | None
    """The number of the GPU; None if its library does not say."""
    stream: int | None
    """The stream on which they are written; None if they are there already."""
    owner: Any
    """What keeps the memory alive."""

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return len(self.shape)


def is_on_gpu(value: Any) -> bool:
    """Whether a value is an array in the memory of a GPU of NVIDIA."""
    if type(value) is np.ndarray:
        return False
    if torch_tensors.is_tensor(value):
        return bool(value.is_cuda)
    if hasattr(value, _INTERFACE):
        return True
    if not hasattr(value, "__dlpack_device__"):
        return False
    try:
        return int(value.__dlpack_device__()[0]) in CUDA_KINDS
    except REFUSALS:
        return False


def device_tensor(value: Any) -> DeviceTensor:
    """What is known of such an array."""
    if isinstance(value, DeviceTensor):
        return value
    if torch_tensors.is_tensor(value):
        return _of_torch(value)
    try:
        if hasattr(value, _INTERFACE):
            return _of_interface(value, getattr(value, _INTERFACE))
        return _of_capsule(value.__dlpack__(stream=DEFAULT_STREAM))
    except REFUSALS as error:
        raise UsageError(
            f"the elements of this {type(value).__name__} cannot be read on the GPU: {error}",
            help="copy it to an array of PyTorch, CuPy or NumPy first",
        ) from error


def _of_torch(tensor: Any) -> DeviceTensor:
    torch: Any = sys.modules["torch"]
    if tensor.layout is not torch.strided or tensor.is_conj() or tensor.is_neg():
        tensor = tensor.detach().to_dense().resolve_conj().resolve_neg()
    number = tensor.get_device()
    return DeviceTensor(
        tensor.data_ptr(),
        torch_tensors.dtype_of(tensor).numpy,
        tuple(tensor.shape),
        tensor.is_contiguous(),
        number,
        torch.cuda.current_stream(number).cuda_stream or DEFAULT_STREAM,
        tensor,
    )


def _of_interface(value: Any, said: dict[str, Any]) -> DeviceTensor:
    shape, dtype = tuple(said["shape"]), np.dtype(said["typestr"])
    if said.get("mask") is not None:
        raise ValueError("it has a mask")
    strides = said.get("strides")
    device = None
    if hasattr(value, "__dlpack_device__"):
        device = int(value.__dlpack_device__()[1])
    return DeviceTensor(
        int(said["data"][0] or 0),
        dtype,
        shape,
        strides is None or _is_dense(shape, [step / dtype.itemsize for step in strides]),
        device,
        said.get("stream", DEFAULT_STREAM),
        value,
    )


def _of_capsule(capsule: Any) -> DeviceTensor:
    tensor, dtype, _ = opened(capsule)
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tensor.strides[: tensor.ndim] if tensor.strides else None
    return DeviceTensor(
        (tensor.data or 0) + tensor.byte_offset,
        np.dtype(dtype.numpy),
        shape,
        strides is None or _is_dense(shape, strides),
        tensor.device_id,
        DEFAULT_STREAM,
        capsule,
    )


def _is_dense(shape: Sequence[int], strides: Sequence[float]) -> bool:
    """Whether elements lie in order; the strides of an axis of one element do not matter."""
    behind = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    steps = zip(shape, strides, behind, strict=True)
    return not prod(shape) or all(n == 1 or have == want for n, have, want in steps)
