"""OpenCL devices as targets."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.backends.opencl.driver import find
from afterglow.backends.opencl.limits import Limits
from afterglow.memory import MAIN_MEMORY, MemorySpace
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import DType
from afterglow.types.dtype import bf16, f16


@dataclass(frozen=True)
class OpenClTarget:
    """A device of this machine."""

    limits: Limits

    @staticmethod
    def of(text: str) -> OpenClTarget:
        """The device that a text names."""
        return OpenClTarget(find(text)[1])

    @property
    def memories(self) -> tuple[MemorySpace, ...]:
        """The device's own memory."""
        return (MAIN_MEMORY,)

    def missing_here(self) -> Sequence[str]:
        """Nothing: only devices that are there are targets."""
        return ()

    def reads(self, storage: DType) -> bool:
        """Whether weights in a narrower type are read at full speed: as floats of 16 bits."""
        return storage in (f16, bf16)

    def __str__(self) -> str:
        return self.limits.name
