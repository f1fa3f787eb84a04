"""Whether the parameters of a module are still what they were when a graph was compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from afterglow.frontends.torch.tensors import array_of

_LOOKED_AT = 64
"""Bytes in the middle of each tensor that are compared."""


class Weights:
    """Parameters that are constants of a compiled graph, and how to see that they changed.

    PyTorch counts what is written to a tensor, but not through `tensor.data`: therefore some bytes
    of each are compared, too.
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
        self.version = tensor._version
        self.place = tensor.data_ptr()
        self.window = _window(tensor)
        self.bytes = bytes(self.window)

    def is_in(self, args: Sequence[Any]) -> bool:
        """Whether an argument is this tensor, unchanged."""
        tensor = args[self.number]
        return (
            tensor is self.tensor
            and tensor._version == self.version
            and tensor.data_ptr() == self.place
            and self.window == self.bytes
        )


def _window(tensor: torch.Tensor) -> memoryview:
    """Some bytes in the middle of a tensor's memory, where they lie."""
    if not tensor.numel() or not tensor.is_contiguous():
        return memoryview(b"")
    flat = array_of(tensor).reshape(-1).view("u1")
    start = max(0, len(flat) // 2 - _LOOKED_AT // 2)
    return memoryview(flat[start : start + _LOOKED_AT].data)
