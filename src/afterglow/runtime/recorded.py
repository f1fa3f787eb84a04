"""Runs that are recorded in a trace, with what is copied to and from the memory of a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from afterglow.runtime.buffers import HostBuffer
from afterglow.runtime.device import DeviceBuffer, Executable
from afterglow.runtime.trace import Recording
from afterglow.types import Array, Interface, TensorType


def run_recorded(
    here: Recording,
    executable: Executable,
    interface: Interface,
    allocate: Callable[[TensorType], DeviceBuffer],
    inputs: Sequence[Array],
    states: Mapping[str, DeviceBuffer],
) -> list[Array]:
    """Run once on arrays of the host, in a row of a trace.

    Where the device has a memory of its own, copies are shown apart from the arithmetic, which
    then cannot overlap with them.
    """
    given = None if interface.dims else _allocated(interface, allocate)
    if given is None:
        with here.span("run", "compute"):
            return executable.run(inputs, states)
    taken, made = given
    with here.span("copy inputs", "transfer", bytes=sum(array.nbytes for array in inputs)):
        _await([buffer.write(array) for buffer, array in zip(taken, inputs, strict=True)])
    with here.span("run", "compute"):
        executable.start(taken, made, states).result()
    with here.span("copy outputs", "transfer", bytes=sum(buffer.type.nbytes for buffer in made)):
        return _await([buffer.read() for buffer in made])


def _allocated(
    interface: Interface, allocate: Callable[[TensorType], DeviceBuffer]
) -> tuple[list[DeviceBuffer], list[DeviceBuffer]] | None:
    """Buffers for inputs and outputs; None if they are in the memory of the host anyhow."""
    ports = (*interface.inputs, *interface.outputs)
    buffers = [allocate(port.type) for port in ports]
    if all(isinstance(buffer, HostBuffer) for buffer in buffers):
        return None
    number = len(interface.inputs)
    return buffers[:number], buffers[number:]


def _await(copies: Sequence[Future[Any]]) -> list[Any]:
    return [copy.result() for copy in copies]
