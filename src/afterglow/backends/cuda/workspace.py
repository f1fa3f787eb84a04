"""What one run at a time needs on a GPU: a stream, an arena, and the graphs captured with them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from afterglow.backends.cuda.driver.protocol import CudaError, Event
from afterglow.backends.cuda.graphs import CapturedRun, CapturedRuns, HostPart, capture
from afterglow.backends.cuda.launches import begin
from afterglow.backends.cuda.memory import CudaBuffer
from afterglow.backends.cuda.pinned import PinnedMemory
from afterglow.backends.cuda.program import LoadedProgram
from afterglow.backends.cuda.session import DeviceMemory
from afterglow.backends.cuda.staging import Staging
from afterglow.backends.cuda.turn import Turn
from afterglow.backends.launched.host_steps import HostSteps, Typed
from afterglow.backends.launched.memories import (
    ALARMS,
    ARENA,
    CONSTANTS,
    COUNTER_BYTES,
    COUNTERS,
)
from afterglow.runtime.device import DeviceBuffer
from afterglow.runtime.native.program import raise_alarm
from afterglow.types import Array

STAGED = "staged"
"""What tells runs on arrays of the host from others: they always work on the same memory."""


class Workspace:
    """The memory of one run at a time, and the runs that were captured on it."""

    stream = 0

    def __init__(self, program: LoadedProgram) -> None:
        session = program.session
        self.program = program
        self.session = session
        self.context = session.context
        self.parts: Sequence[Mapping[str, Any]] = program.manifest["parts"]
        self.turn = Turn(session)
        """Runs take turns by it, whatever their streams."""
        with session.guarded("make a stream"):
            self.stream = self.context.new_stream()
        self.runs = CapturedRuns()
        self._arena = session.allocate(program.arena_bytes)
        self._raised = self._zeros(program.alarm_bytes)
        self._counters = self._zeros(COUNTER_BYTES * int(program.manifest.get("counters", 0)))
        self._pinned = PinnedMemory(session, program.alarm_bytes)
        self._alarms = self._pinned.bytes[: program.alarm_bytes]
        self.fixed = {
            ARENA: self._arena.address,
            CONSTANTS: program.constants.address,
            ALARMS: self._raised.address,
            COUNTERS: self._counters.address,
        }
        self.addresses: Mapping[str, int] = self.fixed
        """Where each memory of the run lies that is under way, by name."""
        self._shadow = np.empty(program.arena_bytes if program.host else 0, np.uint8)
        self._staging: Staging | None = None
        self._arrival: Turn | None = None

    @property
    def arrival(self) -> Event:
        """What is reached when an input is there that another stream writes."""
        if self._arrival is None:
            self._arrival = Turn(self.session)
        return self._arrival.event

    @property
    def staging(self) -> Staging:
        """Memory for inputs and outputs of runs on arrays of the host."""
        if self._staging is None:
            self._staging = Staging(self.session, self.program.interface)
        return self._staging

    def run(
        self,
        inputs: Sequence[Array],
        states: Mapping[str, DeviceBuffer],
        after_part: Callable[[int], None] | None = None,
    ) -> list[Array]:
        """Run on arrays of the host.

        `after_part` is called when a part is done, before the next begins, with its number.
        """
        staging, given = self.staging, self.use_states(states)
        self.addresses = {**self.fixed, **staging.addresses, **given}
        before, results = staging.ports(inputs)
        host = self.host_steps(before, results, states)
        if staging.has_large_inputs:
            self.context.wait(self.stream, self.turn.event)
        staging.put(inputs, self.stream)
        if after_part is None:
            self.replay(self.captured((STAGED, *given.values()), staging), self.stream, host)
        else:
            self._step_by_step(staging, host, after_part)
        self.finish(self.stream)
        return staging.take(results, self.stream)

    def run_on(
        self,
        inputs: Sequence[DeviceBuffer],
        outputs: Sequence[DeviceBuffer],
        states: Mapping[str, DeviceBuffer],
    ) -> None:
        """Run on buffers."""
        where = self.use_states(states)
        for number, buffer in enumerate(inputs):
            if isinstance(buffer, CudaBuffer):
                where[f"input {number}"] = buffer.on(self.session)
        for number, buffer in enumerate(outputs):
            if isinstance(buffer, CudaBuffer):
                where[f"output {number}"] = buffer.on(self.session, overwritten=True)
        self.addresses = {**self.fixed, **where}
        host = self.host_steps(inputs, outputs, states)
        self.replay(self.captured((*where.values(),)), self.stream, host)
        self.finish(self.stream)

    def fetch(self, name: str, data: Array, start: int = 0) -> None:
        """Copy bytes of a memory of the last run to the host, if it is on the GPU."""
        address = self.addresses.get(name)
        if address is not None and data.nbytes:
            self.context.download(data, address + start, self.stream)
            self.context.synchronize(self.stream)

    def send(self, name: str, data: Array, start: int = 0) -> None:
        """Copy bytes of the host to a memory of the last run."""
        self.context.upload(self.addresses[name] + start, data, self.stream)
        self.context.synchronize(self.stream)

    def use_states(self, states: Mapping[str, DeviceBuffer]) -> dict[str, int]:
        """Where states lie, moved here if need be; whoever reads them waits for this run."""
        found = {}
        for name, buffer in states.items():
            if isinstance(buffer, CudaBuffer):
                found[f"state {name}"] = buffer.on(self.session)
                buffer.turn = self.turn
        return found

    def host_steps(
        self, inputs: Sequence[Typed], outputs: Sequence[Typed], states: Mapping[str, Typed]
    ) -> HostSteps | None:
        """What the host runs, if it runs something."""
        hosted = self.program.host
        if hosted is None:
            return None
        return HostSteps(hosted, self, self._shadow, inputs, outputs, states)

    def captured(self, key: Hashable, staging: Staging | None = None) -> CapturedRun:
        """The run on the memory that a key stands for, captured if it was not before."""
        found = self.runs.find(key)
        if found is None:
            found = self._capture(staging)
            self.runs.keep(key, found)
        return found

    def replay(self, run: CapturedRun, stream: int, host: HostSteps | None) -> None:
        """Begin a run; wait for the parts that the host runs."""
        turn = self.turn.event
        if run.only is not None:
            self.context.replay(run.only, stream, turn)
            return
        for step in run.steps:
            if isinstance(step, HostPart):
                self.execute(step.number, host, stream)
            else:
                self.context.replay(step, stream, turn)

    def execute(self, number: int, host: HostSteps | None, stream: int) -> None:
        """Have the host run a part; it sees nothing that an index out of range has spoiled."""
        assert host is not None
        self.finish(stream)
        host.execute(self.parts[number])

    def finish(self, stream: int) -> None:
        """Wait for a run; raise an error if a kernel met an index that is out of range."""
        self.context.synchronize(stream)
        if self.program.checks and self._alarms.any():
            raised = self._alarms.copy()
            self._alarms[:] = 0
            self.session.upload(self._raised.address, self._alarms)
            raise_alarm(self.program.checks, raised)

    def fetch_alarms(self, stream: int) -> None:
        """Begin to copy alarms to the host, if anybody asks for them."""
        if self.program.checks:
            self.context.download(self._alarms, self._raised.address, stream)

    def _capture(self, staging: Staging | None) -> CapturedRun:
        run = CapturedRun(self.session)
        pending: list[Callable[[int], None]] = [] if staging is None else [staging.begin_in]
        for segment in self.program.segments:
            if isinstance(segment, HostPart):
                self._add_graph(run, pending)
                run.add(segment)
            else:
                launches = partial(begin, self.session, segment, self.addresses)
                pending += [launches, self.fetch_alarms]
        if staging is not None:
            pending.append(staging.begin_out)
        self._add_graph(run, pending)
        return run

    def _add_graph(self, run: CapturedRun, pending: list[Callable[[int], None]]) -> None:
        """Add a graph of what is pending, if anything is."""
        if pending:
            begun = [*pending]
            pending.clear()
            run.add(capture(self.session, self.stream, lambda stream: _all(begun, stream)))

    def _step_by_step(
        self, staging: Staging, host: HostSteps | None, after_part: Callable[[int], None]
    ) -> None:
        """Run without graphs, each part by itself."""
        self.context.wait(self.stream, self.turn.event)
        staging.begin_in(self.stream)
        for number, launch in enumerate(self.program.launches):
            if launch is None:
                self.execute(number, host, self.stream)
            else:
                begin(self.session, [launch], self.addresses, self.stream)
                self.fetch_alarms(self.stream)
            self.context.synchronize(self.stream)
            after_part(number)
        staging.begin_out(self.stream)

    def _zeros(self, nbytes: int) -> DeviceMemory:
        memory = self.session.allocate(nbytes)
        self.session.clear(memory.address, nbytes)
        return memory

    def __del__(self) -> None:
        if self.stream and not self.session.is_lost and not sys.is_finalizing():
            with suppress(CudaError):
                self.context.synchronize(self.stream)
                self.context.free_stream(self.stream)


def _all(begun: Sequence[Callable[[int], None]], stream: int) -> None:
    for each in begun:
        each(stream)
