"""Tensors in the memory of an OpenCL device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from afterglow.backends.opencl.driver import library
from afterglow.runtime.background import done
from afterglow.types import Array, TensorType

if TYPE_CHECKING:
    from concurrent.futures import Future


class OpenClBuffer:
    """A tensor on a device; of zeros, unless an array is given."""

    def __init__(
        self, context: Any, queue: Any, type: TensorType, array: Array | None = None
    ) -> None:
        self.type = type
        self.queue = queue
        self.filled = 0
        """How much of it is filled, of state that grows: see `FillLevel`."""
        self.memory = allocate(context, type.nbytes)
        self.write(np.zeros(type.shape, type.dtype.numpy) if array is None else array)

    def write(self, array: Array) -> Future[None]:
        """Copy an array into it."""
        given = np.ascontiguousarray(array, self.type.dtype.numpy)
        if given.nbytes:
            library().enqueue_copy(self.queue, self.memory, as_bytes(given), is_blocking=True)
        return done(None)

    def read(self) -> Future[Array]:
        """A copy of it."""
        found = np.empty(self.type.shape, self.type.dtype.numpy)
        if found.nbytes:
            library().enqueue_copy(self.queue, as_bytes(found), self.memory, is_blocking=True)
        return done(found)


def allocate(context: Any, nbytes: int) -> Any:
    """Memory on a device; drivers have none of no bytes."""
    cl = library()
    return cl.Buffer(context, cl.mem_flags.READ_WRITE, max(nbytes, 1))


def as_bytes(array: Array) -> Array:
    """The memory of a contiguous array."""
    return array.reshape(-1).view(np.uint8)
