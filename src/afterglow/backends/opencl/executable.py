"""Running a compiled program on an OpenCL device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from afterglow.backends.interpreter.hosted import HostedProgram, HostedRun, restore_hosted
from afterglow.backends.opencl.build import build, restore
from afterglow.backends.opencl.codegen import ALARMS, ARENA, BINARY, CONSTANTS, SOURCE
from afterglow.backends.opencl.driver import context, library
from afterglow.backends.opencl.limits import Limits
from afterglow.backends.opencl.memory import OpenClBuffer, allocate, as_bytes
from afterglow.runtime.artifact import Artifact
from afterglow.runtime.background import in_background
from afterglow.runtime.buffers import HostBuffer
from afterglow.runtime.device import DeviceBuffer, Footprint
from afterglow.runtime.native.convention import alarm_bytes
from afterglow.runtime.native.program import CheckedIndex, raise_alarm
from afterglow.types import Array, TensorType
from afterglow.types.dtype import string

if TYPE_CHECKING:
    from concurrent.futures import Future

HOST_PREFIX = "host."
"""How the names of sections begin that are of what the host runs."""


class OpenClExecutable:
    """A compiled program, loaded. Runs wait for each other: the arena on the device is one."""

    def __init__(self, artifact: Artifact, limits: Limits) -> None:
        self.artifact = artifact
        self.limits = limits
        self.interface = artifact.interface
        self.context, self.queue = context(limits.name)
        self.program = _load(artifact, limits)
        self.constants = np.frombuffer(artifact.sections[CONSTANTS], np.uint8)
        self._lock = Lock()
        self._memories = {
            ARENA: allocate(self.context, artifact.manifest["arena_bytes"]),
            CONSTANTS: self._uploaded(self.constants),
        }
        self._checks = [CheckedIndex.restore(data) for data in artifact.manifest["checks"]]
        self._alarms = np.zeros(alarm_bytes(len(self._checks)), np.uint8)
        if self._checks:
            self._memories[ALARMS] = self._uploaded(self._alarms)
        self._kernels = self._make_kernels()
        self._host = _restore_host(artifact, self.constants)

    @property
    def footprint(self) -> Footprint:
        """Its constants, and the text of its kernels."""
        return Footprint(self.constants.nbytes, len(self.artifact.sections[SOURCE]))

    def run(self, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]) -> list[Array]:
        """Run once on arrays of the host."""
        ports = zip(self.interface.inputs, inputs, strict=True)
        given = [self.buffer(port.type, array) for port, array in ports]
        results = [self.buffer(port.type) for port in self.interface.outputs]
        self._execute(given, results, states)
        return [buffer.read().result() for buffer in results]

    def start(
        self,
        inputs: Sequence[DeviceBuffer],
        outputs: Sequence[DeviceBuffer],
        states: Mapping[str, DeviceBuffer],
    ) -> Future[None]:
        """Begin to run on buffers of the device."""
        return in_background(lambda: self._execute(inputs, outputs, states))

    def buffer(self, type: TensorType, array: Array | None = None) -> DeviceBuffer:
        """A tensor on the device; strings stay on the host."""
        if type.dtype is string:
            return HostBuffer(type, array)
        return OpenClBuffer(self.context, self.queue, type, array)

    def _execute(
        self,
        inputs: Sequence[DeviceBuffer],
        outputs: Sequence[DeviceBuffer],
        states: Mapping[str, DeviceBuffer],
    ) -> None:
        named = {
            **{f"input {place}": buffer for place, buffer in enumerate(inputs)},
            **{f"output {place}": buffer for place, buffer in enumerate(outputs)},
            **{f"state {name}": buffer for name, buffer in states.items()},
        }
        with self._lock:
            memories = {**self._memories, **_on_device(named)}
            shadow = _Shadow(self, memories, inputs, outputs, states) if self._host else None
            for place, part in enumerate(self.artifact.manifest["parts"]):
                if shadow is not None and "host" in part:
                    self._check_alarms()
                    shadow.execute(part)
                else:
                    self._launch(place, part, memories)
            self.queue.finish()
            self._check_alarms()

    def _launch(self, place: int, part: Mapping[str, Any], memories: Mapping[str, Any]) -> None:
        kernel = self._kernels[place]
        arguments: list[Any] = []
        for memory, offset in part["memory"]:
            arguments += [memories[memory], np.uint64(offset)]
        kernel(self.queue, part["items"], part["group"], *arguments)

    def _check_alarms(self) -> None:
        """Raise an error if a kernel met an index that is out of range."""
        if not self._checks or self.artifact.manifest["unchecked"]:
            return
        cl, memory = library(), self._memories[ALARMS]
        cl.enqueue_copy(self.queue, self._alarms, memory, is_blocking=True)
        if self._alarms.any():
            raised = self._alarms.copy()
            self._alarms[:] = 0
            cl.enqueue_copy(self.queue, memory, self._alarms, is_blocking=True)
            raise_alarm(self._checks, raised)

    def _make_kernels(self) -> dict[int, Any]:
        """The kernel of each launch, by its place."""
        cl = library()
        parts = enumerate(self.artifact.manifest["parts"])
        return {i: cl.Kernel(self.program, part["kernel"]) for i, part in parts if "kernel" in part}

    def _uploaded(self, data: Array) -> Any:
        memory = allocate(self.context, data.nbytes)
        if data.nbytes:
            library().enqueue_copy(self.queue, memory, data, is_blocking=True)
        return memory


class _Shadow:
    """The memory of one run as the host sees it, for the steps that the host runs."""

    def __init__(
        self,
        executable: OpenClExecutable,
        memories: Mapping[str, Any],
        inputs: Sequence[DeviceBuffer],
        outputs: Sequence[DeviceBuffer],
        states: Mapping[str, DeviceBuffer],
    ) -> None:
        self.queue = executable.queue
        self.memories = memories
        self.arrays = {ARENA: np.empty(executable.artifact.manifest["arena_bytes"], np.uint8)}
        given = [self._array(f"input {i}", buffer) for i, buffer in enumerate(inputs)]
        results = [self._array(f"output {i}", buffer) for i, buffer in enumerate(outputs)]
        shadows = {
            name: HostBuffer(buffer.type, self._array(f"state {name}", buffer))
            for name, buffer in states.items()
        }
        host = executable._host
        assert host is not None
        self.run: HostedRun = host.start(self.arrays[ARENA], given, results, shadows)

    def _array(self, name: str, buffer: DeviceBuffer) -> Array:
        """The host's copy of a buffer, whose content is fetched when it is needed."""
        if isinstance(buffer, HostBuffer):
            return buffer.array
        array = np.empty(buffer.type.shape, buffer.type.dtype.numpy)
        self.arrays[name] = as_bytes(array)
        return array

    def execute(self, part: Mapping[str, Any]) -> None:
        """Fetch what a step reads, run it, and send back what it wrote."""
        cl = library()
        for name, start, size in part["reads"]:
            if size:
                host = self.arrays[name][start : start + size]
                cl.enqueue_copy(
                    self.queue, host, self.memories[name], src_offset=start, is_blocking=True
                )
        self.run.execute(part["host"])
        for name, start, size in part["writes"]:
            if size:
                host = self.arrays[name][start : start + size]
                cl.enqueue_copy(
                    self.queue, self.memories[name], host, dst_offset=start, is_blocking=True
                )


def _on_device(named: Mapping[str, DeviceBuffer]) -> dict[str, Any]:
    """The memories of buffers that are on the device."""
    return {
        name: buffer.memory for name, buffer in named.items() if isinstance(buffer, OpenClBuffer)
    }


def _load(artifact: Artifact, limits: Limits) -> Any:
    """The kernels: as they were compiled, if it was for this device and this driver."""
    source = bytes(artifact.sections[SOURCE]).decode()
    compiled = Limits.of_json(artifact.manifest["device"])
    if BINARY in artifact.sections and compiled.identity == limits.identity:
        return restore(bytes(artifact.sections[BINARY]), source, limits)
    return build(source, limits)


def _restore_host(artifact: Artifact, constants: Array) -> HostedProgram | None:
    """What the host runs, if it runs something."""
    described = artifact.manifest.get("host")
    if described is None:
        return None
    sections = {
        name.removeprefix(HOST_PREFIX): data
        for name, data in artifact.sections.items()
        if name.startswith(HOST_PREFIX)
    }
    return restore_hosted(described, sections, constants)
