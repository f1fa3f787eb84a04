"""What one run at a time needs on a device: a queue, an arena, and kernels that are bound to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from afterglow.backends.interpreter.hosted import HostedProgram
from afterglow.backends.launched.host_steps import HostSteps
from afterglow.backends.launched.memories import ALARMS, ARENA, CONSTANTS
from afterglow.backends.opencl.bound import BoundKernels
from afterglow.backends.opencl.driver import library
from afterglow.backends.opencl.memory import OpenClBuffer, as_bytes
from afterglow.backends.opencl.schedule import Schedule
from afterglow.backends.opencl.session import Session
from afterglow.runtime.buffers import HostBuffer
from afterglow.runtime.device import DeviceBuffer
from afterglow.runtime.native.convention import alarm_bytes
from afterglow.runtime.native.program import CheckedIndex, raise_alarm
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, Interface, TensorType
from afterglow.types.dtype import string


@dataclass(frozen=True)
class LoadedProgram:
    """A program in the context of a device, which its runs share."""

    session: Session
    interface: Interface
    manifest: Mapping[str, Any]
    compiled: Any
    """Its kernels."""
    constants: Any
    schedule: Schedule
    checks: Sequence[CheckedIndex]
    """What alarms are about; empty if nobody asks for them."""
    host: HostedProgram | None


class Workspace:
    """The memory of one run at a time, and the kernels that work on it."""

    def __init__(
        self, program: LoadedProgram, *, timed: bool = False, reorders: bool | None = None
    ) -> None:
        session = program.session
        reorders = session.reorders if reorders is None else reorders
        self.program = program
        self.parts = program.manifest["parts"]
        self.timed = timed
        self.in_order = timed or program.schedule.in_order or not reorders
        self.queue = session.new_queue(in_order=self.in_order, timed=timed)
        self._alarms = np.zeros(alarm_bytes(len(program.manifest["checks"])), np.uint8)
        self._kernels = BoundKernels(program.compiled, self.parts)
        self._kernels.bind(ARENA, session.allocate(program.manifest["arena_bytes"]))
        self._kernels.bind(CONSTANTS, program.constants)
        self._kernels.bind(ALARMS, session.allocate(self._alarms.nbytes))
        session.upload(self._kernels.memories[ALARMS], self._alarms)
        self._shadow = np.empty(program.manifest["arena_bytes"] if program.host else 0, np.uint8)
        self._inputs = [buffer_for(port.type) for port in program.interface.inputs]
        self._outputs = [buffer_for(port.type) for port in program.interface.outputs]
        self._events: list[Any] = []
        self._host_seconds: dict[int, float] = {}
        self._after_part: Callable[[int], None] | None = None

    def run(
        self,
        inputs: Sequence[Array],
        states: Mapping[str, DeviceBuffer],
        after_part: Callable[[int], None] | None = None,
    ) -> list[Array]:
        """Run on arrays of the host, which are copied while the device computes.

        `after_part` is called when a part is done, before the next begins, with its number.
        """
        for buffer, array in zip(self._inputs, inputs, strict=True):
            if isinstance(buffer, HostBuffer):
                buffer.array = array
        results = [np.empty(b.type.shape, b.type.dtype.numpy) for b in self._outputs]
        self._after_part = after_part
        try:
            self._execute(self._inputs, self._outputs, states, inputs, results)
        finally:
            self._after_part = None
        return [
            buffer.array.copy() if isinstance(buffer, HostBuffer) else array
            for buffer, array in zip(self._outputs, results, strict=True)
        ]

    def run_on(
        self,
        inputs: Sequence[DeviceBuffer],
        outputs: Sequence[DeviceBuffer],
        states: Mapping[str, DeviceBuffer],
    ) -> None:
        """Run on buffers."""
        self._execute(inputs, outputs, states, (), ())

    def fetch(self, name: str, data: Array, start: int = 0) -> None:
        """Copy bytes of a memory of the last run to the host, if it is on the device."""
        memory = self._kernels.memories.get(name)
        if memory is not None and data.nbytes:
            copy = library().enqueue_copy
            copy(self.queue, data, memory, src_offset=start, is_blocking=True)

    def send(self, name: str, data: Array, start: int = 0) -> None:
        """Copy bytes of the host to a memory of the last run."""
        memory, copy = self._kernels.memories[name], library().enqueue_copy
        copy(self.queue, memory, data, dst_offset=start, is_blocking=True)

    def part_seconds(self) -> list[float]:
        """The seconds of each part of the last run of a workspace that is timed."""
        events = self._events[self.program.schedule.inputs :]
        return [
            self._host_seconds[number] if launch is None else _seconds(events[number])
            for number, launch in enumerate(self._kernels.launches)
        ]

    def _execute(
        self,
        inputs: Sequence[DeviceBuffer],
        outputs: Sequence[DeviceBuffer],
        states: Mapping[str, DeviceBuffer],
        arrays: Sequence[Array],
        results: Sequence[Array],
    ) -> None:
        self._events = [None] * len(self.program.schedule.waits)
        self._bind(inputs, outputs, states, is_copied=bool(arrays))
        try:
            self._copy_in(arrays)
            self._run_parts(inputs, outputs, states)
            self._copy_out(results)
        finally:
            self.queue.finish()  # after an error, too: the next run has the same memory
            if not self.timed:
                self._events = []  # they hold the arrays of the run
        self._check_alarms()

    def _bind(
        self,
        inputs: Sequence[DeviceBuffer],
        outputs: Sequence[DeviceBuffer],
        states: Mapping[str, DeviceBuffer],
        *,
        is_copied: bool,
    ) -> None:
        """Have kernels use the memory of buffers; what is overwritten need not be there."""
        session = self.program.session
        for number, buffer in enumerate(inputs):
            if isinstance(buffer, OpenClBuffer):
                self._kernels.bind(f"input {number}", buffer.on(session, overwritten=is_copied))
        for number, buffer in enumerate(outputs):
            if isinstance(buffer, OpenClBuffer):
                self._kernels.bind(f"output {number}", buffer.on(session, overwritten=True))
        for name, buffer in states.items():
            if isinstance(buffer, OpenClBuffer):
                self._kernels.bind(f"state {name}", buffer.on(session))

    def _copy_in(self, arrays: Sequence[Array]) -> None:
        for number, array in enumerate(arrays):
            memory = self._kernels.memories.get(f"input {number}")
            if memory is not None and array.nbytes:
                data = as_bytes(np.ascontiguousarray(array))
                copy = library().enqueue_copy(self.queue, memory, data, is_blocking=False)
                self._events[number] = copy

    def _run_parts(
        self,
        inputs: Sequence[DeviceBuffer],
        outputs: Sequence[DeviceBuffer],
        states: Mapping[str, DeviceBuffer],
    ) -> None:
        hosted, host = self.program.host, None
        if hosted is not None:
            host = HostSteps(hosted, self, self._shadow, inputs, outputs, states)
        enqueue, first = library().enqueue_nd_range_kernel, self.program.schedule.inputs
        for number, launch in enumerate(self._kernels.launches):
            if launch is None:
                assert host is not None
                self._run_on_host(host, number)
            else:
                waits = self._before(first + number)
                self._events[first + number] = enqueue(self.queue, *launch, None, waits)
            if self._after_part is not None:
                self.queue.finish()
                self._after_part(number)

    def _run_on_host(self, host: HostSteps, number: int) -> None:
        """A step of the host; it sees nothing that an index out of range has spoiled."""
        if self.program.checks:
            self._fetch_alarms()
        self.queue.finish()
        self._check_alarms()
        start = perf_counter()
        host.execute(self.parts[number])
        self._host_seconds[number] = perf_counter() - start

    def _copy_out(self, results: Sequence[Array]) -> None:
        first = self.program.schedule.inputs + len(self.parts)
        for number, array in enumerate(results):
            memory = self._kernels.memories.get(f"output {number}")
            if memory is not None and array.nbytes:
                self._fetch(as_bytes(array), memory, first + number)
        if self.program.checks:
            self._fetch_alarms()

    def _fetch_alarms(self) -> None:
        self._fetch(self._alarms, self._kernels.memories[ALARMS], len(self._events) - 1)

    def _fetch(self, data: Array, memory: Any, command: int) -> None:
        """Begin to copy memory of the device to the host, as a command of the schedule."""
        waits = self._before(command)
        copy = library().enqueue_copy(self.queue, data, memory, is_blocking=False, wait_for=waits)
        self._events[command] = copy  # without a place to stay it would wait here for its end

    def _before(self, command: int) -> list[Any] | None:
        """The events that a command waits for; none if the queue keeps the order anyhow."""
        if self.in_order:
            return None
        events = (self._events[number] for number in self.program.schedule.waits[command])
        return [event for event in events if event is not None] or None

    def _check_alarms(self) -> None:
        """Raise an error if a kernel met an index that is out of range."""
        if self._alarms.any():
            raised = self._alarms.copy()
            self._alarms[:] = 0
            self.program.session.upload(self._kernels.memories[ALARMS], self._alarms)
            raise_alarm(self.program.checks, raised)


def buffer_for(type: TensorType, array: Array | None = None) -> DeviceBuffer:
    """A tensor for programs of a device; strings stay on the host."""
    return HostBuffer(type, array) if type.dtype is string else OpenClBuffer(type, array)


def _seconds(event: Any) -> float:
    return float(event.profile.end - event.profile.start) * 1e-9
