"""Running a compiled program on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from afterglow.backends.cuda.arrays import CudaArray
from afterglow.backends.cuda.bound import BoundCudaRun
from afterglow.backends.cuda.device_runs import run_on_device
from afterglow.backends.cuda.driver.names import EMULATED
from afterglow.backends.cuda.driver.protocol import CudaError, DeviceFacts, Driver
from afterglow.backends.cuda.needs import check_fits, footprint_of, runs_at_once
from afterglow.backends.cuda.program import LoadedProgram
from afterglow.backends.cuda.session import Session, session
from afterglow.backends.cuda.timing import part_seconds
from afterglow.backends.cuda.workspace import Workspace
from afterglow.backends.launched.memories import CONSTANTS, HOST_PREFIX
from afterglow.backends.launched.pool import Pool
from afterglow.runtime.artifact import Artifact, sections_within
from afterglow.runtime.background import in_background
from afterglow.runtime.device import DeviceBuffer, Footprint, StepName
from afterglow.runtime.device_arrays import DeviceTensor, is_on_gpu
from afterglow.support.errors import DeviceError
from afterglow.types import Array
from afterglow.types.dtype import string

if TYPE_CHECKING:
    from concurrent.futures import Future

    from afterglow.backends.interpreter.hosted import HostedProgram

Found = TypeVar("Found")


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
        self._is_emulated = artifact.manifest["target"]["name"] == EMULATED
        self._program, self._workspaces = self._load()

    @property
    def footprint(self) -> Footprint:
        """Its constants, and the machine code of its kernels."""
        return footprint_of(self.artifact)

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
        """Whether some arrays lie on this GPU, and none on another."""
        if self._has_strings or self._is_emulated:
            return False
        tensors = [each for each in arrays if isinstance(each, DeviceTensor)]
        here = all(each.device in (None, self.facts.number) for each in tensors)
        return here and (bool(tensors) or any(map(is_on_gpu, arrays)))

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
        return self._on_workspace(
            lambda workspace: run_on_device(workspace, arrays, states or {}, stream)
        )

    def bind_on_device(
        self,
        arrays: Sequence[Any],
        states: Mapping[str, DeviceBuffer] | None = None,
        stream: int | None = None,
    ) -> BoundCudaRun:
        """A run on arrays that stay where they are, all in the memory of the GPU.

        Each call begins it once more, on what the arrays hold by then; its outputs are the same.
        """
        with self.workspace() as workspace:
            return BoundCudaRun(self._on_workspace, workspace, arrays, states or {}, stream)

    def _on_workspace(self, work: Callable[[Workspace], Found]) -> Found:
        """What comes of some work on a workspace: a free one is taken without further ado."""
        pool = self._workspaces
        workspace = pool.take_free()  # what `workspace` does takes as long as all else here
        if workspace is None:
            with self.workspace() as taken:
                return work(taken)
        on = workspace.session
        try:
            if not on.is_lost:
                return work(workspace)
        except CudaError as error:
            raise self._met(on, on.failure("run the model", error)) from error
        except DeviceError as error:
            raise self._met(on, error) from error.__cause__
        finally:
            pool.give_back(workspace)
        with self.workspace() as taken:  # on a new context, as the other one is lost
            return work(taken)

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

    @contextmanager
    def workspace(self) -> Iterator[Workspace]:
        """A workspace for a run, on a GPU that has not failed yet."""
        while True:
            program, workspaces = self._alive()
            if self._failed is not None:
                raise self._lost(program.session, self._failed)
            on = program.session
            with workspaces.acquired() as workspace:
                if on.is_lost:  # while this run waited
                    continue
                try:
                    yield workspace
                except CudaError as error:
                    raise self._met(on, on.failure("run the model", error)) from error
                except DeviceError as error:
                    raise self._met(on, error) from error.__cause__
                return

    def _met(self, on: Session, error: DeviceError) -> DeviceError:
        """An error that a run met; if the context is lost, whose program this is will not go on."""
        if on.is_lost and self._failed is None:
            self._failed = error
            error.help = (
                "this model is not run any more; load it anew, and if that fails again, use "
                "another device"
            )
        return error

    def _lost(self, on: Session, first: DeviceError) -> DeviceError:
        return DeviceError(
            f"the model is not run on {on.name} any more since this: {first.what}",
            help="load it anew; others go on, but states that were on the GPU are lost",
        )

    def _alive(self) -> tuple[LoadedProgram, Pool[Workspace]]:
        with self._lock:
            if self._program.session.is_lost and self._failed is None:
                self._program, self._workspaces = self._load()
            return self._program, self._workspaces

    def _load(self) -> tuple[LoadedProgram, Pool[Workspace]]:
        on = session(self.facts.number, self.driver)
        check_fits(self.artifact, on)
        program = LoadedProgram.load(on, self.artifact, self._host)
        runs = runs_at_once(self.artifact, self.facts)
        return program, Pool(lambda: Workspace(program), runs)


def _restore_host(artifact: Artifact) -> HostedProgram | None:
    """What the host runs, if it runs something."""
    described = artifact.manifest.get("host")
    if described is None:
        return None
    # here, because it imports the catalogue of ops, which few saved models need
    from afterglow.backends.interpreter.hosted import restore_hosted  # noqa: PLC0415

    constants = np.frombuffer(artifact.sections[CONSTANTS], np.uint8)
    sections = sections_within(artifact.sections, HOST_PREFIX)
    return restore_hosted(described, sections, constants)
