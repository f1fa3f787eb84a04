"""Memory for the inputs and outputs of runs on arrays of the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from afterglow.backends.cuda.driver.protocol import Context
from afterglow.backends.cuda.memory import as_bytes
from afterglow.backends.cuda.pinned import PinnedMemory
from afterglow.backends.cuda.session import DeviceMemory, Session
from afterglow.runtime.buffers import HostBuffer
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, Interface, Port, TensorType
from afterglow.types.dtype import string

LARGEST_PINNED = 4 << 20
"""Bytes of tensors that are copied through page-locked memory, as a part of the graph of a run; the
driver copies larger ones in pieces, so that both halves of the way are under way at once."""


@dataclass(frozen=True, eq=False)
class StagedTensor:
    """Where a tensor lies on the GPU, and in page-locked memory if it is small."""

    name: str
    place: int
    type: TensorType
    memory: DeviceMemory
    pinned: PinnedMemory | None
    array: Array | None
    """The page-locked memory as an array."""


class Staging:
    """Inputs and outputs of one run at a time; strings stay on the host."""

    def __init__(self, session: Session, interface: Interface) -> None:
        self.session = session
        self.context: Context = session.context
        self.interface = interface
        self.inputs = [self._staged("input", i, p) for i, p in _tensors(interface.inputs).items()]
        self.outputs = [
            self._staged("output", i, p) for i, p in _tensors(interface.outputs).items()
        ]
        staged = (*self.inputs, *self.outputs)
        self.addresses = {each.name: each.memory.address for each in staged}
        """Where each lies on the GPU, by the name of the memory."""
        self.has_large_inputs = any(each.array is None for each in self.inputs)

    def ports(
        self, inputs: Sequence[Array]
    ) -> tuple[list[Port | HostBuffer], list[Port | HostBuffer]]:
        """What is known of inputs and outputs; of strings the arrays themselves."""
        given = [
            HostBuffer(port.type, array) if port.type.dtype is string else port
            for port, array in zip(self.interface.inputs, inputs, strict=True)
        ]
        results = [
            HostBuffer(port.type) if port.type.dtype is string else port
            for port in self.interface.outputs
        ]
        return given, results

    def put(self, inputs: Sequence[Array], stream: int) -> None:
        """Copy inputs to page-locked memory, and begin to copy the others to the GPU."""
        for each in self.inputs:
            if each.array is not None:
                np.copyto(each.array, inputs[each.place])
            else:
                data = as_bytes(np.ascontiguousarray(inputs[each.place]))
                self.context.upload(each.memory.address, data, stream)

    def begin_in(self, stream: int) -> None:
        """Begin to copy inputs from page-locked memory to the GPU."""
        for each in self.inputs:
            if each.array is not None and each.array.nbytes:
                self.context.upload(each.memory.address, as_bytes(each.array), stream)

    def begin_out(self, stream: int) -> None:
        """Begin to copy outputs from the GPU to page-locked memory."""
        for each in self.outputs:
            if each.array is not None and each.array.nbytes:
                self.context.download(as_bytes(each.array), each.memory.address, stream)

    def take(self, results: Sequence[Port | HostBuffer], stream: int) -> list[Array]:
        """Copies of the outputs of a run that has ended; of strings the arrays themselves."""
        found = [each.array.copy() if isinstance(each, HostBuffer) else None for each in results]
        for each in self.outputs:
            found[each.place] = self._taken(each, stream)
        return [array for array in found if array is not None]

    def _taken(self, staged: StagedTensor, stream: int) -> Array:
        if staged.array is not None:
            return staged.array.copy()
        array = np.empty(staged.type.shape, staged.type.dtype.numpy)
        self.context.download(as_bytes(array), staged.memory.address, stream)
        self.context.synchronize(stream)
        return array

    def _staged(self, role: str, place: int, port: Port) -> StagedTensor:
        nbytes = port.type.nbytes
        pinned = PinnedMemory(self.session, nbytes) if nbytes <= LARGEST_PINNED else None
        array = None if pinned is None else pinned.tensor(port.type)
        memory = self.session.allocate(nbytes)
        return StagedTensor(f"{role} {place}", place, port.type, memory, pinned, array)


def _tensors(ports: Sequence[Port]) -> Mapping[int, Port]:
    return {i: port for i, port in enumerate(ports) if port.type.dtype is not string}
