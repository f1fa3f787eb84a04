"""Tensors in the memory of OpenCL devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from afterglow.backends.opencl.driver import library
from afterglow.backends.opencl.session import Session
from afterglow.runtime.background import done, in_background
from afterglow.support.errors import DeviceError
from afterglow.types import Array, TensorType

if TYPE_CHECKING:
    from concurrent.futures import Future


class OpenClBuffer:
    """A tensor on the device that used it last; on the host until one does.

    It holds zeros, unless an array is given. A program on another device moves it there.
    """

    def __init__(self, type: TensorType, array: Array | None = None) -> None:
        self.type = type
        self.filled = 0
        """How much of it is filled, of state that grows: see `FillLevel`."""
        self._content = array
        self._place: tuple[Session, Any] | None = None

    def write(self, array: Array) -> Future[None]:
        """Begin to copy an array into it."""
        if self._place is None or self._place[0].is_lost:
            self._content, self._place = np.array(array, self.type.dtype.numpy), None
            return done(None)
        session, memory = self._place
        given = np.ascontiguousarray(array, self.type.dtype.numpy)
        return _copied(session, memory, as_bytes(given), given.nbytes, None)

    def read(self) -> Future[Array]:
        """Begin to copy it into a new array."""
        if self._place is None:
            return done(np.array(self._on_host()))
        session, memory = self._place
        if session.is_lost:
            raise DeviceError(
                f"what a tensor {self.type} held was lost when {session.limits.name} failed",
                help="write it anew; for the states of a model, model.reset()",
            )
        found = np.empty(self.type.shape, self.type.dtype.numpy)
        return _copied(session, as_bytes(found), memory, found.nbytes, found)

    def on(self, session: Session, *, overwritten: bool = False) -> Any:
        """Its memory on a device, to which it is moved; its content is kept if it matters."""
        place = self._place
        if place is not None and place[0] is session:
            return place[1]
        content = None if overwritten else self.read().result()
        memory = session.allocate(self.type.nbytes)
        if content is not None:
            session.upload(memory, as_bytes(content))
        self._place, self._content = (session, memory), None
        return memory

    def _on_host(self) -> Array:
        if self._content is None:
            return np.zeros(self.type.shape, self.type.dtype.numpy)
        return np.asarray(self._content, self.type.dtype.numpy, order="C")


def _copied(session: Session, to: Any, source: Any, nbytes: int, result: Any) -> Future[Any]:
    """A copy that goes on in the background, and what it gives then."""
    if not nbytes:
        return done(result)
    with session.guarded("copy a tensor", nbytes):
        event = library().enqueue_copy(session.queue, to, source, is_blocking=False)
        session.queue.flush()

    def wait() -> Any:
        with session.guarded("copy a tensor", nbytes):
            event.wait()
        return result

    return in_background(wait, "copy")


def as_bytes(array: Array) -> Array:
    """The memory of a contiguous array."""
    return array.reshape(-1).view(np.uint8)
