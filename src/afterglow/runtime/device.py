"""Devices: what exists on this machine to load compiled programs and to run them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from afterglow.runtime.artifact import Artifact
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, TensorType

if TYPE_CHECKING:
    from concurrent.futures import Future


@dataclass(frozen=True)
class DeviceInfo:
    """What a device is and can do: the facts that costs of programs are made of."""

    name: str
    description: str
    memory_bytes: int
    """Bytes that programs and their data may take on it."""
    bandwidth: float
    """Bytes a second between its memory and its arithmetic."""
    flops: float
    """Floating-point operations of f32 a second, multiplications and additions counted."""
    transfer_bandwidth: float
    """Bytes a second between the host's memory and its own; infinite if they are one."""
    kind: str = "accelerator"
    """What it is: `cpu`, `gpu`, `accelerator`, or `interpreter`."""
    target: str = "host"
    """The target that code for it is compiled for."""
    driver: str = ""
    """The driver that it is reached by, with its version."""
    backend: str = ""
    """The backend that compiles for it; the one of its name if empty."""
    transfer_latency: float = 0.0
    """Seconds that moving anything between the host's memory and its own takes at least."""
    launch_seconds: float = 0.0
    """Seconds that every step of a program takes besides its work."""
    is_simulated: bool = False
    """Whether the figures are its own: runs on this machine take another time."""


@dataclass(frozen=True)
class LoadOptions:
    """How a program is run; a device reads what concerns it."""

    threads: int | None = None
    """Threads of the host that compute; as many as this process may keep busy if None."""
    perf_map: bool = False
    """Whether the profiler `perf` is told the names of functions."""
    streams: int = 1
    """Runs at the same time that each have cores of their own, as many as there are threads."""


@dataclass(frozen=True)
class Footprint:
    """Bytes that an executable needs besides the arena and the arrays it works on."""

    weight_bytes: int
    code_bytes: int = 0
    thread_bytes: int = 0


class DeviceBuffer(Protocol):
    """A tensor in the memory of a device."""

    @property
    def type(self) -> TensorType:
        """Its element type and shape."""

    def write(self, array: Array) -> Future[None]:
        """Begin to copy an array of the host into it; the array must not change until done."""

    def read(self) -> Future[Array]:
        """Begin to copy it into a new array of the host."""


class Executable(Protocol):
    """A program loaded on a device, which can be run again and again, by several threads at once.

    `HostExecutable` and `BufferedExecutable` give either way of running from the other.
    """

    @property
    def footprint(self) -> Footprint:
        """What it needs besides the arena."""

    def run(self, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]) -> list[Array]:
        """Run once on arrays of the host, in the program's order; states are updated."""

    def start(
        self,
        inputs: Sequence[DeviceBuffer],
        outputs: Sequence[DeviceBuffer],
        states: Mapping[str, DeviceBuffer],
    ) -> Future[None]:
        """Begin to run on buffers of its device; the error of a run comes with the result."""


@runtime_checkable
class WritesOutputs(Protocol):
    """An executable that can write outputs into arrays of the caller's."""

    def run_into(
        self,
        inputs: Sequence[Array],
        states: Mapping[str, DeviceBuffer],
        targets: Mapping[int, Array],
    ) -> list[Array]:
        """Run once; the outputs at the places of `targets` are these arrays, others are new.

        They have the element types and shapes of the outputs, lie in order, can be written, and
        share no memory with the inputs or with each other.
        """


@runtime_checkable
class RunsOnDeviceArrays(Protocol):
    """An executable that takes arrays of other libraries in the memory of its device."""

    def takes(self, arrays: Sequence[Any]) -> bool:
        """Whether to give it these as they are: some lie in that memory, and it can use all."""

    def run_on_device(
        self,
        arrays: Sequence[Any],
        states: Mapping[str, DeviceBuffer],
        stream: int | None = None,
    ) -> Sequence[Any]:
        """Begin to run where arrays lie, on a stream of the caller or that of the arrays.

        The outputs are arrays in the same memory that other libraries can use by DLPack; what is
        begun on the stream later finds them complete.
        """

    def bind_on_device(
        self,
        arrays: Sequence[Any],
        states: Mapping[str, DeviceBuffer],
        stream: int | None = None,
    ) -> BoundDeviceRun:
        """A run on arrays that stay where they are, which each call begins once more."""


class BoundDeviceRun(Protocol):
    """A run on the memory of given arrays; its outputs are the same after every run."""

    @property
    def outputs(self) -> Sequence[Any]:
        """Arrays in the memory of the device, which the last run that was begun writes."""

    def __call__(self) -> None:
        """Begin to run on what the arrays hold by then."""


@dataclass(frozen=True)
class StepName:
    """A step of compiled code: its kernels, the nodes that they compute, and who runs it."""

    kernel: str
    origins: tuple[str, ...]
    on_host: bool = False


@runtime_checkable
class TimesSteps(Protocol):
    """An executable that can time each of its steps by itself."""

    def steps(self) -> Sequence[StepName]:
        """Its steps, in order."""

    def time_steps(
        self, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]
    ) -> list[float]:
        """Run once on one thread; the seconds of each step."""


class Device(Protocol):
    """Something that runs programs: found by name, and named by the artifacts that it loads."""

    @property
    def name(self) -> str:
        """What artifacts for it call it."""

    def describe(self) -> DeviceInfo:
        """What it is, and how fast."""

    def identity(self) -> str:
        """A text that differs between devices that need different code: part of cache keys."""

    def load(self, artifact: Artifact, options: LoadOptions = ...) -> Executable:
        """Make a compiled program ready to run."""

    def allocate(self, type: TensorType) -> DeviceBuffer:
        """A buffer of zeros."""


@runtime_checkable
class SeveralDevices(Protocol):
    """A device that stands for several, each with a target of its own."""

    def describe_each(self) -> Sequence[DeviceInfo]:
        """What each of them is, by its target; `describe` and `allocate` are of the first."""

    def allocate_on(self, target: str, type: TensorType) -> DeviceBuffer:
        """A buffer of zeros on the one of a target."""


FindDevice: TypeAlias = Callable[[str], Device]
"""From the name of a device to the device; an error if there is none."""
