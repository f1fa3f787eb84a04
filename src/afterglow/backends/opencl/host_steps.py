"""Steps that the host runs between kernels, on copies of the device's memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from afterglow.backends.interpreter.hosted import HostedProgram, HostedRun
from afterglow.backends.opencl.driver import library
from afterglow.backends.opencl.memory import as_bytes
from afterglow.runtime.buffers import HostBuffer
from afterglow.runtime.device import DeviceBuffer
from afterglow.types import Array


class HostSteps:
    """The memory of one run as the host sees it: what a step needs is fetched when it runs."""

    def __init__(
        self,
        hosted: HostedProgram,
        queue: Any,
        memories: Mapping[str, Any],
        arena: Array,
        inputs: Sequence[DeviceBuffer],
        outputs: Sequence[DeviceBuffer],
        states: Mapping[str, DeviceBuffer],
    ) -> None:
        self.queue = queue
        self.memories = memories
        self.arrays = {"arena": arena}
        given = [self._array(f"input {i}", buffer) for i, buffer in enumerate(inputs)]
        results = [self._array(f"output {i}", buffer) for i, buffer in enumerate(outputs)]
        shadows = {
            name: HostBuffer(buffer.type, self._array(f"state {name}", buffer))
            for name, buffer in states.items()
        }
        self.run: HostedRun = hosted.start(arena, given, results, shadows)

    def execute(self, part: Mapping[str, Any]) -> None:
        """Fetch what a step reads, run it, and send back what it wrote."""
        cl = library()
        for name, start, size, *_ in part["reads"]:
            if size:
                host, memory = self.arrays[name][start : start + size], self.memories[name]
                cl.enqueue_copy(self.queue, host, memory, src_offset=start, is_blocking=True)
        self.run.execute(part["host"])
        for name, start, size, *_ in part["writes"]:
            if size:
                host, memory = self.arrays[name][start : start + size], self.memories[name]
                cl.enqueue_copy(self.queue, memory, host, dst_offset=start, is_blocking=True)

    def _array(self, name: str, buffer: DeviceBuffer) -> Array:
        """The host's copy of a buffer, whose content is fetched when it is needed."""
        if isinstance(buffer, HostBuffer):
            return buffer.array
        array = np.empty(buffer.type.shape, buffer.type.dtype.numpy)
        self.arrays[name] = as_bytes(array)
        return array
