"""The contents of a bundle for GPUs, before it becomes files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from afterglow.backends.bundling.checksum import checksum
from afterglow.backends.cuda.driver.protocol import WARP
from afterglow.backends.launched.memories import (
    ALARMS,
    ARENA,
    CONSTANTS,
    COUNTER_BYTES,
    COUNTERS,
)
from afterglow.runtime.artifact import Artifact
from afterglow.runtime.native.convention import ALIGNMENT, alarm_bytes
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, Interface, TensorType


@dataclass(frozen=True)
class Blob:
    """Where something lies in the data of a bundle."""

    offset: int
    size: int


@dataclass(frozen=True)
class GpuCode:
    """A program as data and launches: `NAME.bin` holds machine code, then constants."""

    name: str
    artifact: Artifact
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]

    @property
    def interface(self) -> Interface:
        """What it takes and gives."""
        return self.artifact.interface

    @property
    def manifest(self) -> Mapping[str, Any]:
        """What its launches are."""
        return self.artifact.manifest

    @property
    def arch(self) -> int:
        """The compute capability that it is compiled for: 90 for 9.0."""
        return int(self.manifest["arch"])

    @cached_property
    def blobs(self) -> dict[str, Blob]:
        """Where each section lies in the data."""
        found, offset = {}, 0
        for name, data in self._sections():
            found[name] = Blob(offset, len(data))
            offset += len(data) + -len(data) % ALIGNMENT
        return found

    @cached_property
    def data(self) -> Array:
        """Machine code and constants, each at a multiple of the alignment."""
        parts = []
        for _, data in self._sections():
            raw = np.frombuffer(data, np.uint8)
            parts += [raw, np.zeros(-raw.size % ALIGNMENT, np.uint8)]
        return np.concatenate(parts)

    @cached_property
    def checksum(self) -> int:
        """The sum by which the code recognises the data."""
        return checksum(self.data)

    @property
    def memory_sizes(self) -> dict[str, int]:
        """Bytes of each memory, by name: first those of every program."""
        checks = len(self.manifest["checks"])
        return {
            ARENA: int(self.manifest["arena_bytes"]),
            CONSTANTS: self.blobs[CONSTANTS].size,
            ALARMS: alarm_bytes(checks),
            COUNTERS: COUNTER_BYTES * int(self.manifest.get("counters", 0)),
            **{name: type.nbytes for name, type in self.tensors().items()},
        }

    def tensors(self) -> dict[str, TensorType]:
        """The tensors that it works on, by the names of their memories."""
        interface = self.interface
        found = {f"input {i}": port.type for i, port in enumerate(interface.inputs)}
        found |= {f"output {i}": port.type for i, port in enumerate(interface.outputs)}
        return found | {f"state {port.name}": port.type for port in interface.states}

    @property
    def gives_alarms(self) -> bool:
        """Whether a run may report an index that is out of range."""
        return bool(self.manifest["checks"]) and not self.manifest["unchecked"]

    def kernel_rows(self) -> list[str]:
        """The kernels as rows of a table in C."""
        return [
            f"{{{blob.offset}, {blob.size}, {_quoted(kernel['symbol'])}, {kernel['shared']}, "
            f"{WARP * kernel['warps']}}}"
            for kernel in self.manifest["kernels"].values()
            for blob in [self.blobs[kernel["section"]]]
        ]

    def launch_rows(self) -> tuple[list[str], list[str]]:
        """The launches as rows of a table in C, and the places of their parameters."""
        numbers = {name: i for i, name in enumerate(self.memory_sizes)}
        kernels = {name: i for i, name in enumerate(self.manifest["kernels"])}
        launches: list[str] = []
        places: list[str] = []
        for part in self.manifest["parts"]:
            x, y, z = part["grid"]
            early = int(bool(launches) and bool(part.get("pdl")))
            launches.append(
                f"{{{kernels[part['kernel']]}, {{{x}, {y}, {z}}}, {len(places)}, "
                f"{len(part['memory'])}, {early}}}"
            )
            places += [f"{{{numbers[name]}, {offset}}}" for name, offset in part["memory"]]
        return launches, places

    @property
    def most_parameters(self) -> int:
        """Of the kernel that has most."""
        return max((len(part["memory"]) for part in self.manifest["parts"]), default=0)

    def _sections(self) -> Iterator[tuple[str, Any]]:
        sections = self.artifact.sections
        for kernel in self.manifest["kernels"].values():
            yield kernel["section"], sections[kernel["section"]]
        yield CONSTANTS, sections[CONSTANTS]


def _quoted(text: str) -> str:
    return f'"{text}"'
