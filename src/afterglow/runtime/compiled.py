"""A compiled function: for exact shapes, or for all shapes within bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import asdict
from functools import cached_property, partial
from typing import Any, TypeAlias

from afterglow.runtime.artifact import Artifact
from afterglow.runtime.buffers import HostBuffer
from afterglow.runtime.device import (
    BoundDeviceRun,
    DeviceBuffer,
    Executable,
    RunsOnDeviceArrays,
    WritesOutputs,
)
from afterglow.runtime.extents import ExtentReader
from afterglow.runtime.growth import Growth, fill
from afterglow.runtime.micro_batches import MicroBatchedExecutable, MicroBatches
from afterglow.runtime.output_targets import check_shape, copied_into, overlap
from afterglow.runtime.recorded_steps import run_of
from afterglow.runtime.signature import Signature, TensorInfo
from afterglow.runtime.trace import Recording
from afterglow.support.errors import UsageError, lacks_memory, out_of_memory
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, Interface, MemoryPlan, Port, TensorType

_Run: TypeAlias = Callable[[Sequence[Any], Mapping[str, DeviceBuffer]], Sequence[Any]]


@dataclass(frozen=True)
class MemoryReport:
    """Bytes that a compiled model needs, with the largest extents; printed, it is a table."""

    arena_bytes: int
    lower_bound_bytes: int
    thread_bytes: int
    weight_bytes: int
    code_bytes: int
    io_bytes: int
    least_io_bytes: int
    """What inputs and outputs take with the smallest extents."""

    @property
    def total_bytes(self) -> int:
        """All that a run takes."""
        private = self.arena_bytes + self.thread_bytes
        return private + self.weight_bytes + self.code_bytes + self.io_bytes

    def __str__(self) -> str:
        rows = asdict(self)
        if self.least_io_bytes == self.io_bytes:
            del rows["least_io_bytes"]
        return "\n".join(
            f"{name.replace('_', ' '):<18} {count:>15,}" for name, count in rows.items()
        )


class CompiledFunction:
    """An executable with what it takes and gives. State starts as zeros and lives as long as it.

    `input_names` and `output_names` are the model's own, in the order of the interface. The
    programs are there if it was compiled in this process, rather than loaded, one for each part
    that a device computes; the artifact unless
    there is nothing that could be saved. `allocate` makes buffers for states. With `batches` the
    interface and the executable are those of micro-batches.
    """

    def __init__(
        self,
        interface: Interface,
        plan: MemoryPlan,
        executable: Executable,
        input_names: Sequence[str],
        output_names: Sequence[str],
        *,
        programs: Sequence[Any] = (),
        artifact: Artifact | None = None,
        allocate: Callable[[TensorType], DeviceBuffer] = HostBuffer,
        batches: MicroBatches | None = None,
    ) -> None:
        if batches is not None:
            interface = batches.interface(interface)
            executable = MicroBatchedExecutable(executable, batches, interface)
        self.interface = interface
        self.plan = plan
        self.executable = executable
        self.input_names = tuple(input_names)
        self.output_names = tuple(output_names)
        self.artifact = artifact
        self.batches = batches
        self.programs = tuple(programs)
        self.allocate = allocate
        self.states = {port.name: allocate(port.type) for port in interface.states}
        self._growth = Growth.of(interface)

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledFunction:
        """The same code, which is never changed, with a copy of the states."""
        copied = copy(self)
        copied.states = {name: self.allocate(state.type) for name, state in self.states.items()}
        for name, state in copied.states.items():
            state.write(self.states[name].read().result()).result()
        if self._growth is not None:
            self._growth.copy_levels(self.states, copied.states)
        return copied

    def reset(self, arrays: Mapping[str, Array] | None = None) -> None:
        """Have states hold arrays, by name; others are zeros, or empty if they grow."""
        fill(self.interface, self.states, arrays or {})

    @property
    def program(self) -> Any:
        """The planned program, an `instr.Program`, which is nothing that running needs."""
        if not self.programs:
            raise UsageError("a loaded model has no program: compile it from its source")
        if len(self.programs) > 1:
            raise UsageError(
                "a model on several devices has a program for each of its parts",
                help='print what is where: model.ir("partitions")',
            )
        return self.programs[0]

    @property
    def signature(self) -> Signature:
        """What it takes and gives; ranged extents are shown as their expressions."""
        return Signature(
            _infos(self.input_names, self.interface.inputs),
            _infos(self.output_names, self.interface.outputs),
        )

    @property
    def memory(self) -> MemoryReport:
        """What it needs."""
        ports = (*self.interface.inputs, *self.interface.outputs)
        footprint = self.executable.footprint
        return MemoryReport(
            arena_bytes=self.plan.arena_bytes,
            lower_bound_bytes=self.plan.lower_bound_bytes,
            thread_bytes=footprint.thread_bytes,
            weight_bytes=footprint.weight_bytes,
            code_bytes=footprint.code_bytes,
            io_bytes=sum(port.type.nbytes for port in ports),
            least_io_bytes=sum(port.type.least_nbytes for port in ports),
        )

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run on arrays of exactly the input types."""
        return self._run(inputs, self.executable.run)

    def run_recorded(self, here: Recording, inputs: Sequence[Array]) -> list[Array]:
        """The same, with each step in a trace if they are wanted and can be shown."""
        return self._run(inputs, run_of(self.executable, here))

    def run_into(self, inputs: Sequence[Array], targets: Mapping[int, Array]) -> list[Array]:
        """The same; the outputs at the places of `targets` are written into these arrays.

        They are written directly if the executable can, and if they share no memory with inputs.
        """
        types = self.output_types(inputs)
        for place, target in targets.items():
            check_shape(self.output_names[place], target, types[place].shape)
        if self._run_into is None or overlap(targets.values(), inputs):
            return copied_into(targets, self.run(inputs), self.output_names)
        return self._run(inputs, partial(self._run_into, targets=targets))

    def output_types(self, inputs: Sequence[Array]) -> list[TensorType]:
        """The type of each output of a run on such inputs."""
        extents = {} if self._extents is None else self._extents.read(inputs, self.states)
        return [port.type.bind(extents) for port in self.interface.outputs]

    @property
    def grows(self) -> bool:
        """Whether states grow from run to run, and with them what it gives."""
        return self._growth is not None

    def run_on_device(self, inputs: Sequence[Any]) -> list[Any] | None:
        """Outputs in the memory of the device where inputs lie; None if it cannot run there."""
        executable = self.on_device
        if executable is None or not executable.takes(inputs):
            return None
        return self._run(inputs, executable.run_on_device)

    def bind_on_device(self, inputs: Sequence[Any]) -> BoundDeviceRun | None:
        """A run on arrays that stay where they are on the device; None if it cannot run there."""
        executable = self.on_device
        if executable is None or self._growth is not None or not executable.takes(inputs):
            return None
        return executable.bind_on_device(inputs, self.states)

    @cached_property
    def on_device(self) -> RunsOnDeviceArrays | None:
        """What runs on arrays in the memory of its device; None if the executable cannot."""
        executable = self.executable
        return executable if isinstance(executable, RunsOnDeviceArrays) else None

    @cached_property
    def _extents(self) -> ExtentReader | None:
        """What reads extents off inputs; None if all shapes are exact."""
        return ExtentReader.of(self.interface) if self.interface.dims else None

    @cached_property
    def _run_into(self) -> Callable[..., list[Array]] | None:
        """What runs with outputs written to given arrays; None if the executable cannot."""
        executable = self.executable
        return executable.run_into if isinstance(executable, WritesOutputs) else None

    def _run(self, inputs: Sequence[Any], run: _Run) -> list[Any]:
        if self._growth is not None:
            self._growth.check_room(self.states)
        try:
            outputs = run(inputs, self.states)
        except (MemoryError, ValueError) as error:
            if not lacks_memory(error):
                raise
            raise out_of_memory("run the model", error) from None
        if self._growth is not None:
            self._growth.advance(inputs, self.states)
        return [*outputs]


def _infos(names: Sequence[str], ports: Sequence[Port]) -> tuple[TensorInfo, ...]:
    pairs = zip(names, ports, strict=True)
    return tuple(TensorInfo.of(name, port.type) for name, port in pairs)
