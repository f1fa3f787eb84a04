"""Tensors in the memory of GPUs, as buffers of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from afterglow.backends.cuda.session import DeviceMemory, Session
from afterglow.backends.cuda.turn import Turn
from afterglow.runtime.background import done
from afterglow.runtime.buffers import HostBuffer
from afterglow.runtime.device import DeviceBuffer
from afterglow.support.errors import DeviceError
from afterglow.types import Array, TensorType
from afterglow.types.dtype import string

if TYPE_CHECKING:
    from concurrent.futures import Future


class CudaBuffer:
    """A tensor on the GPU that used it last; on the host until one does.

    It holds zeros, unless an array is given. A program on another GPU moves it there.
    """

    def __init__(self, type: TensorType, array: Array | None = None) -> None:
        self.type = type
        self.filled = 0
        """How much of it is filled, of state that grows: see `FillLevel`."""
        self.turn: Turn | None = None
        """What is reached when the run has ended that used it last."""
        self._content = array
        self._memory: DeviceMemory | None = None

    def write(self, array: Array) -> Future[None]:
        """Copy an array into it."""
        memory = self._memory
        given = np.array(array, self.type.dtype.numpy, order="C").reshape(self.type.shape)
        if memory is None or memory.session.is_lost:
            self._content, self._memory, self.turn = given, None, None
        else:
            self._wait(memory.session)
            memory.session.upload(memory.address, as_bytes(given))
        return done(None)

    def read(self) -> Future[Array]:
        """Copy it into a new array."""
        memory = self._memory
        if memory is None:
            return done(np.array(self._on_host()))
        session = memory.session
        if session.is_lost:
            raise DeviceError(
                f"what a tensor {self.type} held was lost when {session.name} failed",
                help="write it anew; for the states of a model, model.reset()",
            )
        found = np.empty(self.type.shape, self.type.dtype.numpy)
        self._wait(session)
        session.download(as_bytes(found), memory.address)
        return done(found)

    def on(self, session: Session, *, overwritten: bool = False) -> int:
        """Its address on a GPU, to which it is moved; its content is kept if it matters."""
        memory = self._memory
        if memory is not None and memory.session is session:
            return memory.address
        content = None if overwritten else self.read().result()
        memory = session.allocate(self.type.nbytes)
        if content is not None:
            session.upload(memory.address, as_bytes(content))
        self._memory, self._content, self.turn = memory, None, None
        return memory.address

    def _wait(self, session: Session) -> None:
        """Have copies wait for the run that used it last."""
        if self.turn is not None:
            with session.guarded("copy a tensor"):
                session.context.wait(session.stream, self.turn.event)

    def _on_host(self) -> Array:
        if self._content is None:
            return np.zeros(self.type.shape, self.type.dtype.numpy)
        return np.asarray(self._content, self.type.dtype.numpy, order="C")


def buffer_for(type: TensorType, array: Array | None = None) -> DeviceBuffer:
    """A tensor for programs of a GPU; strings stay on the host."""
    return HostBuffer(type, array) if type.dtype is string else CudaBuffer(type, array)


def as_bytes(array: Array) -> Array:
    """The memory of a contiguous array."""
    return array.reshape(-1).view(np.uint8)
