"""Running a compiled program on a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from afterglow.backends.cuda.arrays import CudaArray
from afterglow.backends.cuda.driver.protocol import CudaError, DeviceFacts, Driver
from afterglow.backends.cuda.needs import check_fits, runs_at_once
from afterglow.backends.cuda.program import LoadedProgram
from afterglow.backends.cuda.sections import CONSTANTS, CUBIN, HOST_PREFIX
from afterglow.backends.cuda.session import Session, session
from afterglow.backends.cuda.timing import part_seconds
from afterglow.backends.cuda.workspace import Workspace
from afterglow.backends.interpreter.hosted import HostedProgram, restore_hosted
from afterglow.backends.launched.pool import Pool
from afterglow.runtime.artifact import Artifact, sections_within
from afterglow.runtime.background import in_background
from afterglow.runtime.device import DeviceBuffer, Footprint, StepName
from afterglow.runtime.device_arrays import is_on_gpu
from afterglow.support.errors import DeviceError
from afterglow.types import Array
from afterglow.types.dtype import string

if TYPE_CHECKING:
    from concurrent.futures import Future


class CudaExecutable:
    """A compiled program, loaded. Several runs may be under way; of programs with states, one.

    After an error of the GPU that was met here it is lost. If another program met it, this one is
    loaded anew for its next run, as all memory of the GPU is lost then.
    """

    def __init__(self, artifact: Artifact, driver: Driver, facts: DeviceFacts) -> None:
        self.artifact = artifact
        self.driver = driver
        self.facts = facts
        self._host = _restore_host(artifact)
        self._lock = Lock()
        self._failed: DeviceError | None = None
        self._has_strings = any(
            port.type.dtype is string
            for port in (*artifact.interface.inputs, *artifact.interface.outputs)
        )
        self._program, self._workspaces = self._load()

    @property
    def footprint(self) -> Footprint:
        """Its constants, and the machine code of its kernels."""
        sections = self.artifact.sections
        code = sum(len(data) for name, data in sections.items() if name.startswith(CUBIN))
        return Footprint(len(sections[CONSTANTS]), code)

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

    def takes(self, arrays: Sequence[Any]) -> bool:
        """Whether arrays are such that `run_on_device` should be given them."""
        return not self._has_strings and any(map(is_on_gpu, arrays))

    def run_on_device(
        self,
        arrays: Sequence[Any],
        states: Mapping[str, DeviceBuffer] | None = None,
        stream: int | None = None,
    ) -> list[CudaArray]:
        """Begin to run on arrays in the memory of the GPU, on a stream of the caller.

        An array is one of PyTorch, CuPy or another library, a result of such a run, or an array of
        the host, which is copied. Without a stream it is that of the first array that has one.
        """
        with self.workspace() as workspace:
            return workspace.device_runs.run(arrays, states or {}, stream)

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
        """Run in order; the seconds of each step, as the GPU counts them."""
        with self.workspace() as workspace:
            return part_seconds(workspace, inputs, states)
