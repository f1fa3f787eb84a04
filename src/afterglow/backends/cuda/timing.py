"""The seconds of each part of a run, as the GPU counts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from statistics import median
from time import perf_counter

from afterglow.backends.cuda.driver.protocol import CudaError, Event, Graph
from afterglow.backends.cuda.graphs import HostPart, capture
from afterglow.backends.cuda.launches import Launch, begin
from afterglow.backends.cuda.workspace import Workspace
from afterglow.backends.launched.host_steps import HostSteps
from afterglow.runtime.device import DeviceBuffer
from afterglow.types import Array

RUNS = 7
"""Runs of which the median is taken, after one that warms up; of programs with states, only one."""


def part_seconds(
    workspace: Workspace, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]
) -> list[float]:
    """Run a program with an event between its parts; the seconds of each part."""
    staging = workspace.staging
    workspace.addresses = {
        **workspace.fixed,
        **staging.addresses,
        **workspace.use_states(states),
    }
    before, results = staging.ports(inputs)
    host = workspace.host_steps(before, results, states)
    workspace.context.wait(workspace.stream, workspace.turn.event)
    staging.put(inputs, workspace.stream)
    staging.begin_in(workspace.stream)
    timed = _TimedRun(workspace, host)
    try:
        runs = [timed.seconds() for _ in range(1 if states else 1 + RUNS)]
    finally:
        timed.close()
    return [median(each) for each in zip(*runs[-RUNS:], strict=True)]


class _TimedRun:
    """The graphs of a run, in which an event is reached before and after each kernel.

    Were kernels launched one by one, the time would be that of the host, which launches them.
    """

    def __init__(self, workspace: Workspace, host: HostSteps | None) -> None:
        self.workspace = workspace
        self.context = workspace.context
        self.host = host
        self.events: list[Event] = []
        self.steps: list[tuple[Graph, list[Event]] | HostPart] = []
        try:
            for segment in workspace.program.segments:
                self.steps.append(
                    segment if isinstance(segment, HostPart) else self._captured(segment)
                )
        except BaseException:
            self.close()
            raise

    def seconds(self) -> list[float]:
        """Run once; the seconds of each part."""
        found = []
        for step in self.steps:
            if isinstance(step, HostPart):
                start = perf_counter()
                self.workspace.execute(step.number, self.host, self.workspace.stream)
                found.append(perf_counter() - start)
                continue
            graph, events = step
            self.context.replay(graph, self.workspace.stream, self.workspace.turn.event)
            self.workspace.finish(self.workspace.stream)
            found += map(self.context.elapsed, events, events[1:])
        return found

    def close(self) -> None:
        """Give graphs and events back."""
        with suppress(CudaError):
            for step in self.steps:
                if not isinstance(step, HostPart):
                    self.context.free_graph(step[0])
            for event in self.events:
                self.context.free_event(event)
        self.steps, self.events = [], []

    def _captured(self, segment: Sequence[Launch]) -> tuple[Graph, list[Event]]:
        events = [self.context.new_event(timed=True) for _ in range(len(segment) + 1)]
        self.events += events

        def launch(stream: int) -> None:
            self.context.record(events[0], stream)
            for each, event in zip(segment, events[1:], strict=True):
                begin(self.workspace.session, [each], self.workspace.addresses, stream)
                self.context.record(event, stream)
            self.workspace.fetch_alarms(stream)

        return capture(self.workspace.session, self.workspace.stream, launch), events
