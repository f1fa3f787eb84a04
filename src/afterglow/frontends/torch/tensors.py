"""PyTorch's tensors as arrays, which share their memory."""

from __future__ import annotations

import torch

from afterglow.frontends.torch.elements import element_type, torch_name
from afterglow.support.errors import AfterglowError, ModelError, UnsupportedError
from afterglow.types import Array, DType

_BYTES = {1: torch.uint8, 2: torch.int16}
"""By their size: types that NumPy has, to look at the bytes of those that it has not."""


def array_of(tensor: torch.Tensor) -> Array:
    """The elements of a tensor where they lie; a copy if they are elsewhere or not in order."""
    _check(tensor)
    plain = tensor.detach().resolve_conj().resolve_neg().cpu()
    dtype = element_type(plain.dtype)
    try:
        array: Array = plain.numpy()
    except TypeError:  # an element type that NumPy has not
        array = plain.view(_BYTES[plain.element_size()]).numpy().view(dtype.numpy)
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
    if tensor.is_nested:
        raise UnsupportedError("it is a nested tensor", help="pad it to one length")


def tensor_of(array: Array) -> torch.Tensor:
    """The elements of an array as a tensor in the same memory."""
    dtype = getattr(torch, torch_name(DType.of(array.dtype)))
    if array.dtype.isbuiltin == 1 and array.dtype.kind != "V":
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(f"i{array.dtype.itemsize}")).view(dtype)
