"""Runs that are recorded in a trace: copies to and from devices, and steps where they are timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from time import perf_counter
from typing import Any, TypeAlias

from afterglow.runtime.buffers import HostBuffer
from afterglow.runtime.compiled import CompiledFunction
from afterglow.runtime.device import DeviceBuffer, Executable, TimesSteps
from afterglow.runtime.model import CompiledModel
from afterglow.runtime.partitioned.graph import DEVICE as PARTITIONED
from afterglow.runtime.trace import Recording, Row, Trace, recording
from afterglow.runtime.version import Version
from afterglow.types import Array, Interface, TensorType

Allocate: TypeAlias = Callable[[TensorType], DeviceBuffer]
Buffers: TypeAlias = tuple[list[DeviceBuffer], list[DeviceBuffer]]
"""Those of inputs, and those of outputs."""


def record_model(
    trace: Trace, model: CompiledModel, feed: Mapping[str, Any], reset: Callable[[], None]
) -> None:
    """Record one run of a model, and once more its steps one after the other, if they are timed.

    A model that consists of parts shows each on its device. `reset` gives it its state anew.
    """
    here = Recording(trace, trace.next_request(), Row("host", "caller"))
    version = model.version_for(feed)
    reset()
    if not isinstance(version, Version) or _device(version.compiled) == PARTITIONED:
        with here.span("run", "run"), recording(here):
            model.run(None, feed)
        return
    compiled, inputs = version.compiled, version.inputs_of(feed)
    there = Recording(trace, here.request, Row(_device(compiled), "stream 0"))
    buffers = device_buffers(compiled.interface, compiled.allocate)
    if buffers is not None:
        compiled.executable.start(*buffers, compiled.states).result()  # brings them to the device
        reset()
    with here.span("run", "run"):
        run_recorded(there, compiled.executable, buffers, inputs, compiled.states)
    reset()
    if isinstance(compiled.executable, TimesSteps):
        row = Row(_device(compiled), "steps, one after the other")
        _record_steps(trace, row, compiled, inputs)


def run_with_steps(
    trace: Trace, row: Row, model: CompiledModel, feed: Mapping[str, Any]
) -> list[Any]:
    """All outputs of a run, whose steps are added to a trace where the device can show them.

    Such a run takes one thread, and a microsecond more for each step.
    """
    here = Recording(trace, trace.next_request(), row, with_steps=True)
    arrays = model.feed((dict(feed),), {})
    version = model.version_for(arrays)
    with recording(here):  # for programs that consist of parts
        return (
            version.run_recorded(here, arrays)
            if isinstance(version, Version)
            else version.run(arrays)
        )


def _device(compiled: CompiledFunction) -> str:
    """The device that a program is for; what has no artifact is called by the host."""
    return "library" if compiled.artifact is None else compiled.artifact.device


def _record_steps(
    trace: Trace, row: Row, compiled: CompiledFunction, inputs: Sequence[Array]
) -> None:
    executable = compiled.executable
    assert isinstance(executable, TimesSteps)
    begin = perf_counter()
    seconds = executable.time_steps(inputs, compiled.states)
    for step, taken in zip(executable.steps(), seconds, strict=True):
        where = "host" if step.on_host else row.process
        trace.add(
            row,
            step.kernel,
            begin,
            begin + taken,
            kind="step",
            node=", ".join(step.origins),
            on=where,
        )
        begin += taken


def run_recorded(
    here: Recording,
    executable: Executable,
    buffers: Buffers | None,
    inputs: Sequence[Array],
    states: Mapping[str, DeviceBuffer],
) -> list[Array]:
    """Run once on arrays of the host, in a row of a trace.

    With buffers of a device, copies are shown apart from the arithmetic, which then cannot overlap
    with them.
    """
    if buffers is None:
        with here.span("run", "compute"):
            return executable.run(inputs, states)
    taken, made = buffers
    with here.span("copy inputs", "transfer", bytes=sum(array.nbytes for array in inputs)):
        _await([buffer.write(array) for buffer, array in zip(taken, inputs, strict=True)])
    with here.span("run", "compute"):
        executable.start(taken, made, states).result()
    with here.span("copy outputs", "transfer", bytes=sum(buffer.type.nbytes for buffer in made)):
        return _await([buffer.read() for buffer in made])


def device_buffers(interface: Interface, allocate: Allocate) -> Buffers | None:
    """Buffers for inputs and outputs; None if those are in the memory of the host anyhow."""
    if interface.dims:  # of which only a run knows the extents
        return None
    taken = [allocate(port.type) for port in interface.inputs]
    made = [allocate(port.type) for port in interface.outputs]
    if all(isinstance(buffer, HostBuffer) for buffer in (*taken, *made)):
        return None
    return taken, made


def _await(copies: Sequence[Future[Any]]) -> list[Any]:
    return [copy.result() for copy in copies]
