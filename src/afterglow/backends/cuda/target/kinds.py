"""NVIDIA GPUs as targets: what code is compiled for, and what plans are made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from afterglow.backends.cuda.driver.names import DEVICE, EMULATED
from afterglow.memory import MAIN_MEMORY, MemorySpace
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import DType


@dataclass(frozen=True)
class CudaTarget:
    """A GPU, or a kind of GPU: the facts that kernels are written for."""

    name: str
    """What a user writes to name it."""
    arch: int
    """Its compute capability: 90 for 9.0."""
    units: int
    """Streaming multiprocessors."""
    shared_bytes: int
    """Shared memory that one block may have."""
    memory_bytes: int
    bandwidth: float
    """Bytes a second of its memory."""
    tensor_flops: float
    """Operations a second of dense products of f16 with sums in f32."""
    flops: float
    """Operations a second of f32 outside of tensor cores."""
    model: str = ""
    """The name of the GPU: what was tuned for one is for no other."""

    @property
    def is_emulated(self) -> bool:
        """Whether its kernels run on the processor."""
        return self.name == EMULATED

    @property
    def has_dependent_launch(self) -> bool:
        """Whether a kernel may begin before the one ahead of it has ended."""
        return self.arch >= 90

    def cost_of(self, seconds: float) -> float:
        """Seconds as plans state them: FLOPs of f32 that take as long."""
        return seconds * self.flops

    @property
    def memories(self) -> tuple[MemorySpace, ...]:
        """The device's own memory."""
        return (MAIN_MEMORY,)

    def missing_here(self) -> Sequence[str]:
        """Nothing: whether its code can run is found when it is loaded."""
        return ()

    def reads(self, storage: DType) -> bool:
        """Whether weights in a narrower type are read at full speed: all that may be stored."""
        return True

    def to_json(self) -> dict[str, Any]:
        """All facts, as JSON can hold them."""
        return asdict(self)

    @staticmethod
    def of_json(data: dict[str, Any]) -> CudaTarget:
        """What was written so; facts that were not known then are as by default."""
        return CudaTarget(**{f.name: data[f.name] for f in fields(CudaTarget) if f.name in data})

    def __str__(self) -> str:
        return self.name


GB = 10**9
KINDS = {
    target.name: target
    for target in (
        CudaTarget("sm_80", 80, 108, 166_912, 40 * GB, 1.55e12, 312e12, 19.5e12),
        CudaTarget("sm_86", 86, 84, 101_376, 24 * GB, 0.93e12, 142e12, 35.6e12),
        CudaTarget("sm_89", 89, 128, 101_376, 24 * GB, 1.0e12, 330e12, 82e12),
        CudaTarget("sm_90", 90, 132, 232_448, 80 * GB, 3.35e12, 990e12, 67e12),
        CudaTarget("sm_100", 100, 148, 232_448, 192 * GB, 8.0e12, 2250e12, 80e12),
        CudaTarget("sm_120", 120, 170, 101_376, 32 * GB, 1.79e12, 419e12, 105e12),
        CudaTarget(EMULATED, 90, 4, 232_448, 4 * GB, 1e9, 1e9, 1e9),
    )
}
"""Targets by name, each with the facts of a usual GPU of its kind (A100, A10, L40, H100, B200, RTX
5090), which compiling needs no GPU for."""


def kind_of(name: str) -> CudaTarget:
    """The target of a name that stands for a kind of GPU."""
    found = KINDS.get(name)
    if found is None:
        raise UsageError(
            f"{DEVICE} has no target {name!r}",
            help=f"there are host (the GPU of this machine), {', '.join(KINDS)}",
        )
    return found
