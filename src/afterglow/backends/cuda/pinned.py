"""Page-locked memory of the host, which a GPU reads and writes by itself."""

from __future__ import annotations

import sys
from contextlib import suppress

import numpy as np

from afterglow.backends.cuda.driver.protocol import CudaError
from afterglow.backends.cuda.session import Session
from afterglow.types import Array, TensorType


class PinnedMemory:
    """Bytes of the host, given back when nobody has them any more."""

    def __init__(self, session: Session, nbytes: int) -> None:
        self.session = session
        self.array: Array | None = None
        with session.guarded("allocate page-locked memory of the host", nbytes):
            self.array = session.context.alloc_host(max(nbytes, 1))
        self.array[:] = 0

    @property
    def bytes(self) -> Array:
        """All of it."""
        assert self.array is not None
        return self.array

    def tensor(self, type: TensorType) -> Array:
        """Its first bytes as a tensor."""
        return self.bytes[: type.nbytes].view(np.dtype(type.dtype.numpy)).reshape(type.shape)

    def __del__(self) -> None:
        if self.array is not None and not self.session.is_lost and not sys.is_finalizing():
            with suppress(CudaError):
                self.session.context.free_host(self.array)
