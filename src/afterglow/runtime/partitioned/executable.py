"""Running a partitioned program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from afterglow.runtime.artifact import Artifact
from afterglow.runtime.buffers import HostBuffer, HostExecutable
from afterglow.runtime.device import (
    DeviceBuffer,
    DeviceInfo,
    FindDevice,
    Footprint,
    LoadOptions,
)
from afterglow.runtime.native.machine import usable_memory
from afterglow.runtime.partitioned.executor import Executor
from afterglow.runtime.partitioned.graph import DEVICE, Part, PartGraph, of_artifact
from afterglow.runtime.partitioned.loaded import LoadedPart, Values, count_uses
from afterglow.runtime.streams import Streams
from afterglow.runtime.trace import Row, current_recording
from afterglow.types import Array, TensorType


class PartitionedExecutable(HostExecutable):
    """A partitioned program, loaded; values of several devices pass through the host's memory.

    Parts run on streams of its own, but for devices that it shares, by name, with others.
    """

    def __init__(
        self,
        graph: PartGraph,
        parts: Sequence[LoadedPart],
        shared: Mapping[str, Streams] | None = None,
    ) -> None:
        self.graph = graph
        self.parts = tuple(parts)
        self._uses = count_uses(graph)
        has_streams = shared or len({part.name for part in parts}) > 1
        self._executor = Executor(graph, parts, shared or {}) if has_streams else None

    def sharing(self, streams: Mapping[str, Streams]) -> PartitionedExecutable:
        """The same program, whose parts run on streams that others have work for, too."""
        return PartitionedExecutable(self.graph, self.parts, streams)

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
        """Run the parts on the streams of their devices; of one device, here and in order."""
        values = Values(self.graph, inputs, self._uses)
        if self._executor is not None:
            return self._executor.run(values, states)
        record = current_recording()
        for loaded in self.parts:
            here = record and replace(record, row=Row(loaded.name, "stream 0"))
            values.add(loaded.part, loaded.results(values, states, here))
        return [values[name] for name in self.graph.outputs]


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
