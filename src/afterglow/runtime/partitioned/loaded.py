"""Parts whose programs are on their devices, and the values that pass between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from afterglow.runtime.buffers import HostBuffer, host_buffer
from afterglow.runtime.device import Device, DeviceBuffer, Executable, SeveralDevices
from afterglow.runtime.logical_device import HOST_TARGET
from afterglow.runtime.partitioned.graph import Part, PartGraph
from afterglow.runtime.recorded_steps import run_of
from afterglow.runtime.trace import Recording
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, TensorType


@dataclass(frozen=True)
class LoadedPart:
    """A part whose program is on its device."""

    part: Part
    device: Device
    executable: Executable

    @property
    def name(self) -> str:
        """The name of its logical device."""
        return self.part.device.name

    @property
    def nbytes(self) -> int:
        """Bytes that it takes on its device: weights, arena, inputs and outputs."""
        artifact = self.part.artifact
        ports = sum(port.type.nbytes for port in artifact.interface.ports)
        return self.executable.footprint.weight_bytes + artifact.plan.arena_bytes + ports

    @cached_property
    def in_host_memory(self) -> bool:
        """Whether its device computes in the host's memory, so that nothing is copied there."""
        ports = self.part.artifact.interface.inputs or self.part.artifact.interface.outputs
        return not ports or isinstance(self.device.allocate(ports[0].type), HostBuffer)

    def results(
        self, values: Values, states: Mapping[str, DeviceBuffer], here: Recording | None = None
    ) -> dict[str, Array]:
        """Run once on values, perhaps in a row of a trace; the results by name."""
        inputs = [values[name] for name in self.part.inputs]
        if here is None:
            outputs = self.run(inputs, states)
        else:
            with here.span("run", "compute"):
                outputs = self.run(inputs, states, here)
        return dict(zip(self.part.outputs, outputs, strict=True))

    def run(
        self,
        inputs: Sequence[Array],
        states: Mapping[str, DeviceBuffer],
        here: Recording | None = None,
    ) -> list[Array]:
        """Run once on arrays of the host."""
        own = {port.name: states[port.name] for port in self.part.artifact.interface.states}
        if not own:
            return run_of(self.executable, here)(inputs, {})
        there = {name: self._on_device(host_buffer(state)) for name, state in own.items()}
        outputs = self.executable.run(inputs, there)
        for name, state in own.items():
            if there[name] is not state:
                state.write(there[name].read().result()).result()
        return outputs

    def allocate(self, type: TensorType) -> DeviceBuffer:
        """A buffer in the memory that the part computes in."""
        if not isinstance(self.device, SeveralDevices):
            return self.device.allocate(type)
        target = self.part.device.target
        first = self.device.describe_each()[0].target
        return self.device.allocate_on(first if target == HOST_TARGET else target, type)

    def _on_device(self, state: HostBuffer) -> DeviceBuffer:
        """State as the device holds it: the same memory, if it computes in the host's."""
        buffer = self.device.allocate(state.type)
        if isinstance(buffer, HostBuffer):
            return state
        buffer.write(state.array).result()
        return buffer


class Values:
    """The values of one run, by name; each is dropped once nothing reads it any more."""

    def __init__(self, graph: PartGraph, inputs: Sequence[Array], uses: Counter[str]) -> None:
        self.graph = graph
        self.on_device: dict[str, DeviceBuffer] = {}
        """Values that are in the memory of the device that made them."""
        self._made = dict(zip(graph.inputs, inputs, strict=True))
        self._left = uses.copy()

    def __getitem__(self, name: str) -> Array:
        """A value, which may be items of another one, or those of several."""
        if name in self.graph.rows:
            rows = self.graph.rows[name]
            return self[rows.value][rows.start : rows.stop]
        if name in self.graph.joined:
            return np.concatenate([self[part] for part in self.graph.joined[name]])
        return self._made[name]

    def add(
        self,
        part: Part,
        results: Mapping[str, Array],
        on_device: Mapping[str, DeviceBuffer] | None = None,
    ) -> None:
        """Take the results of a part, and drop what it was the last to read."""
        self._made.update(results)
        self.on_device.update(on_device or {})
        for name in self.graph.reads(part):
            self._left[name] -= 1
            if not self._left[name]:
                self._made.pop(name, None)
                self.on_device.pop(name, None)


def count_uses(graph: PartGraph) -> Counter[str]:
    """How often each input and each result is read, by parts or as an output."""
    reads = (name for part in graph.parts for name in graph.reads(part))
    kept = (name for value in graph.outputs for name in graph.sources(value))
    return Counter([*reads, *kept])
