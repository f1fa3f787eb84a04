"""Whether the parameters of a module are still what they were when a graph was compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from afterglow.frontends.torch.tensors import array_of

_WHOLE = 1024
"""Bytes of a tensor that are all compared."""
_LOOKED_AT = 64
"""Bytes in the middle of a larger tensor that are compared."""


class Weights:
    """Parameters that are constants of a compiled graph, and how to see that they changed.

    PyTorch counts what is written to a tensor, but not through `tensor.data` or an array in that
    memory, nor to tensors of `torch.inference_mode`: therefore bytes are compared, too, all of
    small tensors and some of large ones.
    """

    def __init__(self, tensors: Mapping[int, torch.Tensor]) -> None:
        self.tensors = dict(tensors)
        self._seen = [_Seen(number, tensor) for number, tensor in tensors.items()]

    def are_same(self, args: Sequence[Any]) -> bool:
        """Whether the arguments have the same tensors, unchanged as far as can be seen."""
        return all(seen.is_in(args) for seen in self._seen)


class _Seen:
    """A tensor as it was."""

    __slots__ = ("bytes", "number", "place", "tensor", "version", "window")

    def __init__(self, number: int, tensor: torch.Tensor) -> None:
        self.number = number
        self.tensor = tensor
        self.version = _version(tensor)
        self.place = tensor.data_ptr()
        self.window = _window(tensor)
        self.bytes = bytes(self.window)

    def is_in(self, args: Sequence[Any]) -> bool:
        """Whether an argument is this tensor, unchanged."""
        tensor = args[self.number]
        return (
            tensor is self.tensor
            and _version(tensor) == self.version
            and tensor.data_ptr() == self.place
            and self.window == self.bytes
        )


def _version(tensor: torch.Tensor) -> int:
    """How often a tensor was written, as far as PyTorch counts that."""
    return 0 if tensor.is_inference() else tensor._version


def _window(tensor: torch.Tensor) -> memoryview:
    """Some bytes in the middle of a tensor's memory, where they lie."""
    if not tensor.numel():
        return memoryview(b"")
    span = 1 + sum(
        (extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )
    flat = array_of(tensor.detach().as_strided((span,), (1,))).view("u1")
    length = len(flat) if len(flat) <= _WHOLE else _LOOKED_AT
    start = (len(flat) - length) // 2
    return memoryview(flat[start : start + length].data)
