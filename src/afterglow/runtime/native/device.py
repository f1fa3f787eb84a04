"""The CPU of this machine as a device."""

from __future__ import annotations

import math
from functools import cache
from time import perf_counter

import numpy as np

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

_COPIED_BYTES = 1 << 26
"""Bytes that are copied to measure bandwidth: more than caches hold."""
_MATRIX = 512
"""Rows and columns of the matrices that are multiplied to measure arithmetic."""
_TRIALS = 3


class CpuDevice:
    """Runs machine code in this process; the host runs what there is no machine code for."""

    name = DEVICE

    def __init__(self, restore_host: RestoreHost) -> None:
        self.restore_host = restore_host

    def describe(self) -> DeviceInfo:
        """The processor, the memory that this process may have, and measured rates."""
        cores = usable_cores()
        counted = "1 core" if cores == 1 else f"{cores} cores"
        return host_info(self.name, f"{processor_name()}, {counted}")

    def identity(self) -> str:
        """The processor, its caches and the cores that may be used."""
        return _identity()

    def load(self, artifact: Artifact, options: LoadOptions | None = None) -> NativeExecutable:
        """Map the code into this process, and make it executable."""
        options = options or LoadOptions()
        native = from_artifact(artifact, self.restore_host)
        return NativeExecutable(native, options.threads, perf_map=options.perf_map)

    def allocate(self, type: TensorType) -> HostBuffer:
        """A buffer of zeros in the host's memory."""
        return HostBuffer(type)


def host_info(name: str, description: str) -> DeviceInfo:
    """What a device is that computes in the host's memory."""
    return DeviceInfo(name, description, usable_memory(), *_rates(), math.inf)


@cache
def _identity() -> str:
    return f"{processor()} {cache_sizes()} {usable_cores()}"


@cache
def _rates() -> tuple[float, float]:
    """Bytes and floating-point operations a second, by NumPy's copies and products."""
    source, copied = np.zeros(_COPIED_BYTES, np.uint8), np.empty(_COPIED_BYTES, np.uint8)
    matrix, product = np.ones((_MATRIX, _MATRIX), np.float32), np.empty((_MATRIX,) * 2, np.float32)
    copying, multiplying = math.inf, math.inf
    for _ in range(_TRIALS):
        started = perf_counter()
        np.copyto(copied, source)
        copying = min(copying, perf_counter() - started)
        started = perf_counter()
        np.matmul(matrix, matrix, out=product)
        multiplying = min(multiplying, perf_counter() - started)
    return 2 * _COPIED_BYTES / copying, 2 * _MATRIX**3 / multiplying
