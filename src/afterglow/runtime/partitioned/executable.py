"""Running a partitioned program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from afterglow.runtime.artifact import Artifact
from afterglow.runtime.buffers import HostBuffer, HostExecutable, host_buffer
from afterglow.runtime.device import (
    Device,
    DeviceBuffer,
    DeviceInfo,
    Executable,
    FindDevice,
    Footprint,
    LoadOptions,
)
from afterglow.runtime.native.machine import usable_memory
from afterglow.runtime.partitioned.graph import DEVICE, Part, PartGraph, of_artifact
from afterglow.types import Array, TensorType


@dataclass(frozen=True)
class LoadedPart:
    """A part whose program is on its device."""

    part: Part
    device: Device
    executable: Executable

    @property
    def nbytes(self) -> int:
        """Bytes that it takes on its device: weights, arena, inputs and outputs."""
        artifact = self.part.artifact
        ports = sum(port.type.nbytes for port in artifact.interface.ports)
        return self.executable.footprint.weight_bytes + artifact.plan.arena_bytes + ports

    def run(self, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]) -> list[Array]:
        """Run once on arrays of the host."""
        own = {port.name: states[port.name] for port in self.part.artifact.interface.states}
        if not own:
            return self.executable.run(inputs, {})
        there = {name: self._on_device(host_buffer(state)) for name, state in own.items()}
        outputs = self.executable.run(inputs, there)
        for name, state in own.items():
            if there[name] is not state:
                state.write(there[name].read().result()).result()
        return outputs

    def _on_device(self, state: HostBuffer) -> DeviceBuffer:
        """State as the device holds it: the same memory, if it computes in the host's."""
        buffer = self.device.allocate(state.type)
        if isinstance(buffer, HostBuffer):
            return state
        buffer.write(state.array).result()
        return buffer


class PartitionedExecutable(HostExecutable):
    """A partitioned program, loaded; its values pass through the host's memory."""

    def __init__(self, graph: PartGraph, parts: Sequence[LoadedPart]) -> None:
        self.graph = graph
        self.parts = tuple(parts)
        reads = (name for part in graph.parts for name in graph.reads(part))
        kept = (name for value in graph.outputs for name in graph.sources(value))
        self._uses = Counter([*reads, *kept])

    @property
    def footprint(self) -> Footprint:
        """What all parts need besides their arenas."""
        own = [part.executable.footprint for part in self.parts]
        return Footprint(
            sum(footprint.weight_bytes for footprint in own),
            sum(footprint.code_bytes for footprint in own),
            sum(footprint.thread_bytes for footprint in own),
        )

    def run(self, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]) -> list[Array]:
        """Run the parts in their order; a value is dropped once nothing reads it any more."""
        values = Values(self.graph, dict(zip(self.graph.inputs, inputs, strict=True)))
        left = self._uses.copy()
        for loaded in self.parts:
            part = loaded.part
            results = loaded.run([values[name] for name in part.inputs], states)
            values.made.update(zip(part.outputs, results, strict=True))
            for name in self.graph.reads(part):
                left[name] -= 1
                if not left[name]:
                    del values.made[name]
        return [values[name] for name in self.graph.outputs]


@dataclass(frozen=True)
class Values:
    """The values of one run, by name."""

    graph: PartGraph
    made: dict[str, Array]
    """Inputs of the model, and results of parts."""

    def __getitem__(self, name: str) -> Array:
        """A value, which may be items of another one, or those of several."""
        if name in self.graph.rows:
            rows = self.graph.rows[name]
            return self[rows.value][rows.start : rows.stop]
        if name in self.graph.joined:
            return np.concatenate([self[part] for part in self.graph.joined[name]])
        return self.made[name]


class PartitionedDevice:
    """Has the devices of this machine run the parts of programs."""

    name = DEVICE

    def __init__(self, find_device: FindDevice) -> None:
        self.find_device = find_device

    def describe(self) -> DeviceInfo:
        """Nothing that computes by itself."""
        return DeviceInfo(self.name, "several devices", usable_memory(), 0.0, 0.0, 0.0)

    def identity(self) -> str:
        """Nothing: the devices of parts have their own."""
        return self.name

    def load(self, artifact: Artifact, options: LoadOptions | None = None) -> PartitionedExecutable:
        """Load each part on its device, with the threads that it has there."""
        graph = of_artifact(artifact)
        given = options or LoadOptions()
        return PartitionedExecutable(graph, [self._load(part, given) for part in graph.parts])

    def _load(self, part: Part, options: LoadOptions) -> LoadedPart:
        device = self.find_device(part.artifact.device)
        threads = options.threads if part.device.threads is None else part.device.threads
        loaded = device.load(part.artifact, replace(options, threads=threads))
        return LoadedPart(part, device, loaded)

    def allocate(self, type: TensorType) -> HostBuffer:
        """A buffer of zeros in the host's memory, from which parts take their states."""
        return HostBuffer(type)
