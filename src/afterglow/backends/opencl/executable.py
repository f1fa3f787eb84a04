"""Running a compiled program on an OpenCL device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from afterglow.backends.interpreter.hosted import HostedProgram, restore_hosted
from afterglow.backends.launched.memories import CONSTANTS, HOST_PREFIX
from afterglow.backends.launched.pool import Pool
from afterglow.backends.opencl.build import load_kernels
from afterglow.backends.opencl.codegen import SOURCE
from afterglow.backends.opencl.limits import Limits
from afterglow.backends.opencl.schedule import Schedule
from afterglow.backends.opencl.session import Session, memory_of, session
from afterglow.backends.opencl.workspace import LoadedProgram, Workspace
from afterglow.runtime.artifact import Artifact
from afterglow.runtime.background import in_background
from afterglow.runtime.device import DeviceBuffer, Footprint, StepName
from afterglow.runtime.native.program import CheckedIndex
from afterglow.support.errors import DeviceError
from afterglow.types import Array

if TYPE_CHECKING:
    from concurrent.futures import Future

RUNS_AT_ONCE = 4
"""Runs of a program that are under way at most; each has an arena, further ones wait."""


class OpenClExecutable:
    """A compiled program, loaded; loaded anew if its device failed and is there again.

    Several runs may be under way, each with an arena of its own; of programs with states, one.
    """

    def __init__(self, artifact: Artifact, limits: Limits) -> None:
        check_fits(artifact, limits)
        self.artifact = artifact
        self.limits = limits
        self.schedule = Schedule.of(artifact.interface, artifact.manifest["parts"])
        self.constants = np.frombuffer(artifact.sections[CONSTANTS], np.uint8)
        self._host = _restore_host(artifact, self.constants)
        self._lock = Lock()
        self._program, self._workspaces = self._load(session(limits.name))

    @property
    def footprint(self) -> Footprint:
        """Its constants, and the text of its kernels."""
        return Footprint(self.constants.nbytes, len(self.artifact.sections[SOURCE]))

    def run(self, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]) -> list[Array]:
        """Run once on arrays of the host."""
        with self.workspace() as workspace:
            return workspace.run(inputs, states)

    def start(
        self,
        inputs: Sequence[DeviceBuffer],
        outputs: Sequence[DeviceBuffer],
        states: Mapping[str, DeviceBuffer],
    ) -> Future[None]:
        """Begin to run on buffers of the device."""

        def work() -> None:
            with self.workspace() as workspace:
                workspace.run_on(inputs, outputs, states)

        return in_background(work)

    def steps(self) -> list[StepName]:
        """Its kernels and the steps of the host, in order."""
        return [
            StepName(part["kernel"], tuple(part["origins"]))
            if self._host is None or "host" not in part
            else self._host.step(part["host"])
            for part in self.artifact.manifest["parts"]
        ]

    def time_steps(
        self, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]
    ) -> list[float]:
        """Run once, in order; the seconds of each step, as the device counts them."""
        with self.workspace() as workspace:
            timed = Workspace(workspace.program, timed=True)
            timed.run(inputs, states)
            return timed.part_seconds()

    @contextmanager
    def workspace(self) -> Iterator[Workspace]:
        """A workspace for a run, on a device that has not failed yet."""
        while True:
            program, workspaces = self._alive()
            with program.session.guarded("run the model"), workspaces.acquired() as workspace:
                if program.session.is_lost:  # it failed while this run waited
                    continue
                yield workspace
                return

    def _alive(self) -> tuple[LoadedProgram, Pool[Workspace]]:
        with self._lock:
            if self._program.session.is_lost:
                self._program, self._workspaces = self._load(session(self.limits.name))
            return self._program, self._workspaces

    def _load(self, on: Session) -> tuple[LoadedProgram, Pool[Workspace]]:
        artifact, manifest = self.artifact, self.artifact.manifest
        memory = on.allocate(self.constants.nbytes)
        on.upload(memory, self.constants)
        checks = [CheckedIndex.restore(data) for data in manifest["checks"]]
        program = LoadedProgram(
            on,
            artifact.interface,
            manifest,
            load_kernels(artifact.sections, Limits.of_json(manifest["device"]), on),
            memory,
            self.schedule,
            [] if manifest["unchecked"] else checks,
            self._host,
        )
        return program, Pool(lambda: Workspace(program), runs_at_once(artifact, self.limits))


def runs_at_once(artifact: Artifact, limits: Limits) -> int:
    """How many runs may be under way: as many as half of the device's memory has room for."""
    interface = artifact.interface
    if interface.states:
        return 1
    ports = (*interface.inputs, *interface.outputs)
    each = int(artifact.manifest["arena_bytes"]) + sum(port.type.nbytes for port in ports)
    room = limits.memory_bytes // 2 - len(artifact.sections[CONSTANTS])
    return max(1, min(RUNS_AT_ONCE, room // max(each, 1)))


def check_fits(artifact: Artifact, limits: Limits) -> None:
    """Refuse a program that needs more memory than a device has, or more in one buffer."""
    interface = artifact.interface
    ports = (*interface.inputs, *interface.outputs, *interface.states)
    needs = {
        "weights": len(artifact.sections[CONSTANTS]),
        "intermediate results": artifact.manifest["arena_bytes"],
        "inputs, outputs and states": sum(port.type.nbytes for port in ports),
    }
    largest = max(needs["weights"], needs["intermediate results"])
    largest = max([largest, *(port.type.nbytes for port in ports)])
    if sum(needs.values()) <= limits.memory_bytes and largest <= limits.buffer_bytes:
        return
    listed = ", ".join(f"{count:,} for {what}" for what, count in needs.items())
    raise DeviceError(
        f"{limits.name} has not enough memory: a run takes {sum(needs.values()):,} bytes, "
        f"{largest:,} of them in one buffer: {listed}",
        help=memory_of(limits),
    )


def _restore_host(artifact: Artifact, constants: Array) -> HostedProgram | None:
    """What the host runs, if it runs something."""
    described = artifact.manifest.get("host")
    if described is None:
        return None
    sections: dict[str, Any] = {
        name.removeprefix(HOST_PREFIX): data
        for name, data in artifact.sections.items()
        if name.startswith(HOST_PREFIX)
    }
    return restore_hosted(described, sections, constants)
