"""Results of runs in the memory of a GPU, as arrays that other libraries use where they lie."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from afterglow.backends.cuda.session import DeviceMemory
from afterglow.backends.cuda.turn import Turn
from afterglow.runtime.device_arrays import CUDA_KINDS, DEFAULT_STREAM
from afterglow.runtime.dlpack_export import capsule_of
from afterglow.types import Array, TensorType

_NO_WAITING = -1
"""The stream of users who see to the order themselves."""


class CudaArray:
    """A tensor in the memory of a GPU, in order and without gaps.

    It speaks DLPack and `__cuda_array_interface__`; `numpy()` copies it to the host. A run may
    still write it: who uses it on another stream than the run's is made to wait. Its memory is that
    of a later run on the same stream once nobody has it.
    """

    __slots__ = (
        "__weakref__",
        "_is_shared",
        "_memory",
        "_turn",
        "address",
        "session",
        "stream",
        "type",
    )

    def __init__(self, type: TensorType, memory: DeviceMemory, stream: int, turn: Turn) -> None:
        self.type = type
        self.address = memory.address
        self.stream = stream
        """The stream of the run that writes it."""
        self.session = memory.session
        """Where it lies."""
        self._memory = memory
        self._turn = turn
        self._is_shared = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extents."""
        return self.type.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Its element type, as NumPy has it."""
        return np.dtype(self.type.dtype.numpy)

    def wait_on(self, stream: int) -> None:
        """Have a stream wait until it is there."""
        if stream != self.stream:
            self._is_shared = True
            self.session.context.wait(stream, self._turn.event)

    def written_by(self, turn: Turn) -> None:
        """Say that runs of another turn write it from now on."""
        self._turn = turn

    def numpy(self) -> Array:
        """Its elements, copied to the host."""
        found = np.empty(self.shape, self.dtype)
        session = self.session
        with session.guarded("copy a result"):
            session.context.wait(session.stream, self._turn.event)
        session.download(found.reshape(-1).view(np.uint8), self.address)
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("an array on a GPU cannot be read by NumPy without a copy")
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA_KINDS[0], self.session.facts.number

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        device = self.__dlpack_device__()
        if copy or (dl_device is not None and tuple(dl_device) != device):
            raise BufferError("an array on a GPU is shared where it lies: numpy() copies it")
        if stream != _NO_WAITING:
            self.wait_on(DEFAULT_STREAM if stream is None else stream)
        versioned = max_version is not None and max_version[0] >= 1
        return capsule_of(
            self, self.address, self.type.dtype, self.shape, device, versioned=versioned
        )

    @property
    def __cuda_array_interface__(self) -> Mapping[str, Any]:
        if self.dtype.isbuiltin != 1:
            raise AttributeError(f"{self.type.dtype} has no name there: use DLPack")
        self._is_shared = True
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address if self.type.nbytes else 0, False),
            "strides": None,
            "stream": self.stream or DEFAULT_STREAM,
        }

    def __repr__(self) -> str:
        return f"<CudaArray {self.type} on {self.session.name}>"

    def __del__(self) -> None:
        memory = getattr(self, "_memory", None)
        if memory is None or self._is_shared or self.session.is_lost:
            return
        if not sys.is_finalizing():
            self.session.outputs.give(memory, self.stream)
