"""What an OpenCL device can do: the facts that kernels are written for."""

from __future__ import annotations

import re
from dataclasses import asdict, fields
from typing import Any

from afterglow.support.lazy_dataclass import dataclass

PROCESSOR = "cpu"
POCL = "Portable Computing Language"
OLD_POCL = "PoCL 3.0"
"""Its LLVM fails on vectors of 16 floats, and inlines no functions of OpenCL C."""
_UNSPELLABLE = re.compile(r"[^a-z0-9.]+")


@dataclass(frozen=True)
class Limits:
    """A device by name, and what it has and has not."""

    platform: str
    device: str
    vendor: str
    version: str
    """Of OpenCL and of the driver: code that one made may be wrong for another."""
    kind: str
    """`cpu`, `gpu`, or what else it calls itself."""
    double: bool
    half: bool
    units: int
    work_group: int
    """Items of a work-group at most."""
    local_bytes: int
    memory_bytes: int
    buffer_bytes: int
    """Bytes of one buffer at most."""
    lanes: int
    """Floats in a vector that the device computes with at once, and compiles."""
    exact_division: bool
    """Whether quotients and roots of f32 can be had rounded right."""
    number: int = 1
    """Tells devices of the same name apart."""
    dot: bool = False
    """Whether it says that it has instructions for the dot product of four bytes by four."""

    @property
    def name(self) -> str:
        """What a user writes to name it."""
        return f"opencl:{slug(self.platform)}/{slug(self._device)}"

    @property
    def _device(self) -> str:
        return self.device if self.number == 1 else f"{self.device} {self.number}"

    @property
    def is_processor(self) -> bool:
        """Whether it is the host's processor: few units, each of which likes much work at once."""
        return self.kind == PROCESSOR

    @property
    def uses_dot(self) -> bool:
        """Whether kernels are to use these instructions: on processors, floats are faster."""
        return self.dot and not self.is_processor

    @property
    def keeps_programs(self) -> bool:
        """Whether its driver keeps on disk what it compiled, so that the artifact need not.

        PoCL does; asked for a binary, it compiles every kernel again for work-groups of any size,
        and launches do not use that.
        """
        return self.platform == POCL

    @property
    def inlines(self) -> bool:
        """Whether small functions of OpenCL C, such as `vload8` and `fma`, are instructions."""
        return OLD_POCL not in self.version

    @property
    def identity(self) -> str:
        """A text that differs where compiled code may."""
        return f"{self.platform} {self.device} {self.version}"

    def matches(self, platform: str, device: str) -> bool:
        """Whether words of a user mean this device: parts of names, or of what kind it is."""
        of_platform = slug(f"{self.platform} {self.vendor}")
        of_device = slug(f"{self._device} {self.kind}")
        return slug(platform) in of_platform and slug(device) in of_device

    def to_json(self) -> dict[str, Any]:
        """All facts, as JSON can hold them."""
        return asdict(self)

    @staticmethod
    def of_json(data: dict[str, Any]) -> Limits:
        """What was written so; facts that were not known then are as by default."""
        return Limits(**{f.name: data[f.name] for f in fields(Limits) if f.name in data})


def slug(text: str) -> str:
    """A name in small letters, digits and dashes."""
    return _UNSPELLABLE.sub("-", text.lower()).strip("-")
