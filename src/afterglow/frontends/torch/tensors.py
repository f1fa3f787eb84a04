"""PyTorch's tensors as arrays, which share their memory."""

from __future__ import annotations

import torch

from afterglow.frontends.torch.elements import element_type
from afterglow.runtime import torch_tensors
from afterglow.runtime.torch_tensors import tensor_of
from afterglow.support.errors import AfterglowError, ModelError, UnsupportedError
from afterglow.types import Array

__all__ = ["array_of", "read_tensor", "tensor_of"]


def array_of(tensor: torch.Tensor) -> Array:
    """The elements of a tensor where they lie; a copy if they are elsewhere or not in order."""
    _check(tensor)
    array = torch_tensors.array_of(tensor)
    return array if array.flags.c_contiguous else array.copy()


def read_tensor(name: str, tensor: torch.Tensor) -> Array:
    """The same; errors say which tensor it is."""
    try:
        return array_of(tensor)
    except AfterglowError as error:
        raise type(error)(f"tensor {name!r}: {error.what}", help=error.help) from None


def _check(tensor: torch.Tensor) -> None:
    """Refuse tensors without elements of their own in rows and columns."""
    if tensor.is_meta or isinstance(tensor, torch._subclasses.FakeTensor):
        raise ModelError(
            "it is on the device 'meta': it has no elements",
            help="load the weights first, for example with load_state_dict(…, assign=True)",
        )
    if tensor.layout is not torch.strided:
        raise UnsupportedError(f"it is sparse ({tensor.layout})", help="call to_dense() on it")
    if tensor.is_quantized:
        raise UnsupportedError(
            f"it is a quantized tensor ({tensor.dtype})",
            help="export a model that was quantized by torchao's PT2E, which has plain tensors",
        )
    element_type(tensor.dtype)  # which we must have
    if tensor.is_nested:
        raise UnsupportedError("it is a nested tensor", help="pad it to one length")
