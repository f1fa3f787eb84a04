"""What devices have in common: buffers in the host's memory, and runs on either kind of memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from afterglow.runtime.background import done, in_background
from afterglow.runtime.device import Device, DeviceBuffer
from afterglow.types import Array, Interface, TensorType

if TYPE_CHECKING:
    from concurrent.futures import Future


class HostBuffer:
    """A tensor in the host's memory; `array` is the memory itself, zeros if it is not given."""

    def __init__(self, type: TensorType, array: Array | None = None) -> None:
        self.type = type
        self.array = np.zeros(type.shape, type.dtype.numpy) if array is None else array
        self.filled = 0
        """How much of it is filled, of state that grows: see `FillLevel`."""

    def write(self, array: Array) -> Future[None]:
        """Copy an array into it."""
        self.array[...] = array
        return done(None)

    def read(self) -> Future[Array]:
        """A copy of it."""
        return done(self.array.copy())


def host_buffer(buffer: DeviceBuffer) -> HostBuffer:
    """A buffer that a device made as a `HostBuffer`."""
    assert isinstance(buffer, HostBuffer), "the buffer is of another device"
    return buffer


def host_array(buffer: DeviceBuffer) -> Array:
    """The memory of a buffer that a device made as a `HostBuffer`."""
    return host_buffer(buffer).array


class HostExecutable(ABC):
    """An executable that works on the host's memory: a run in the background is one in a thread."""

    @abstractmethod
    def run(self, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]) -> list[Array]:
        """Run once on arrays."""

    def start(
        self,
        inputs: Sequence[DeviceBuffer],
        outputs: Sequence[DeviceBuffer],
        states: Mapping[str, DeviceBuffer],
    ) -> Future[None]:
        """Begin to run on buffers."""

        def work() -> None:
            results = self.run([self.array_of(buffer) for buffer in inputs], states)
            for output, result in zip(outputs, results, strict=True):
                output.write(result).result()

        return in_background(work)

    def array_of(self, buffer: DeviceBuffer) -> Array:
        """The array of an input: the memory of the buffer itself."""
        return host_array(buffer)


class BufferedExecutable(ABC):
    """An executable that works on the memory of its device: arrays are copied there and back."""

    device: Device
    interface: Interface

    @abstractmethod
    def start(
        self,
        inputs: Sequence[DeviceBuffer],
        outputs: Sequence[DeviceBuffer],
        states: Mapping[str, DeviceBuffer],
    ) -> Future[None]:
        """Begin to run on buffers."""

    def run(self, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]) -> list[Array]:
        """Run once on arrays."""
        given = [self.device.allocate(port.type) for port in self.interface.inputs]
        results = [self.device.allocate(port.type) for port in self.interface.outputs]
        copies: list[Future[Any]] = [
            buffer.write(array) for buffer, array in zip(given, inputs, strict=True)
        ]
        for copy in copies:
            copy.result()
        self.start(given, results, states).result()
        return [buffer.read().result() for buffer in results]
