"""Steps that the host runs between kernels, on copies of the device's memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from afterglow.runtime.buffers import HostBuffer
from afterglow.types import Array, TensorType

if TYPE_CHECKING:
    from afterglow.backends.interpreter.hosted import HostedProgram, HostedRun


class Transfers(Protocol):
    """Copies bytes between the host and a memory of a run, by its name, and waits for the end."""

    def fetch(self, name: str, data: Array, start: int = 0) -> None:
        """Copy bytes of the device, from `start` on, into an array."""

    def send(self, name: str, data: Array, start: int = 0) -> None:
        """Copy an array to the device, from `start` on."""


class Typed(Protocol):
    """A tensor somewhere: a buffer of the device, or what is known of one."""

    @property
    def type(self) -> TensorType:
        """Its element type and shape."""


class HostSteps:
    """The memory of one run as the host sees it: what a step needs is fetched when it runs.

    Tensors that are `HostBuffer`s are used as they are; there is no other copy of them.
    """

    def __init__(
        self,
        hosted: HostedProgram,
        transfers: Transfers,
        arena: Array,
        inputs: Sequence[Typed],
        outputs: Sequence[Typed],
        states: Mapping[str, Typed],
    ) -> None:
        self.transfers = transfers
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
        for name, start, size, *_ in part["reads"]:
            if size:
                self.transfers.fetch(name, self.arrays[name][start : start + size], start)
        self.run.execute(part["host"])
        for name, start, size, *_ in part["writes"]:
            if size:
                self.transfers.send(name, self.arrays[name][start : start + size], start)

    def _array(self, name: str, buffer: Typed) -> Array:
        """The host's copy of a buffer, whose content is fetched when it is needed."""
        if isinstance(buffer, HostBuffer):
            return buffer.array
        array = np.empty(buffer.type.shape, buffer.type.dtype.numpy)
        self.arrays[name] = array.reshape(-1).view(np.uint8)
        return array
