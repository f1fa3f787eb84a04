"""The CPU of this machine as a device."""

from __future__ import annotations

import math
from functools import cache

from afterglow.runtime.artifact import Artifact
from afterglow.runtime.buffers import HostBuffer
from afterglow.runtime.device import DeviceInfo, LoadOptions
from afterglow.runtime.native.executable import NativeExecutable
from afterglow.runtime.native.machine import (
    cache_sizes,
    processor,
    processor_name,
    usable_cores,
    usable_memory,
)
from afterglow.runtime.native.stored import DEVICE, RestoreHost, from_artifact
from afterglow.types import TensorType

_BANDWIDTH = 2e10
"""Bytes a second of memory, as long as nobody measured it."""
_CORE_FLOPS = 5e10
"""Floating-point operations a second of a core, as long as nobody measured it."""


class CpuDevice:
    """Runs machine code in this process; the host runs what there is no machine code for."""

    name = DEVICE

    def __init__(self, restore_host: RestoreHost) -> None:
        self.restore_host = restore_host

    def describe(self) -> DeviceInfo:
        """The processor, the memory that this process may have, and usual rates."""
        cores = usable_cores()
        counted = "1 core" if cores == 1 else f"{cores} cores"
        return host_info(self.name, f"{processor_name()}, {counted}", "cpu")

    def identity(self) -> str:
        """The processor, its caches and the cores that may be used."""
        return _identity()

    def load(self, artifact: Artifact, options: LoadOptions | None = None) -> NativeExecutable:
        """Map the code into this process, and make it executable."""
        options = options or LoadOptions()
        native = from_artifact(artifact, self.restore_host)
        return NativeExecutable(
            native, options.threads, perf_map=options.perf_map, streams=options.streams
        )

    def allocate(self, type: TensorType) -> HostBuffer:
        """A buffer of zeros in the host's memory."""
        return HostBuffer(type)


def host_info(name: str, description: str, kind: str) -> DeviceInfo:
    """What a device is that computes in the host's memory."""
    flops = usable_cores() * _CORE_FLOPS
    return DeviceInfo(name, description, usable_memory(), _BANDWIDTH, flops, math.inf, kind)


@cache
def _identity() -> str:
    return f"{processor()} {cache_sizes()} {usable_cores()}"
