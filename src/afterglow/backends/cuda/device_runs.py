"""Runs on arrays in the memory of the GPU, where they lie and on the stream of the caller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from afterglow.backends.cuda.arrays import CudaArray
from afterglow.backends.cuda.graphs import CapturedRun
from afterglow.backends.cuda.memory import CudaBuffer, as_bytes
from afterglow.backends.cuda.workspace import Workspace
from afterglow.runtime.device import DeviceBuffer
from afterglow.runtime.device_arrays import DEFAULT_STREAM, DeviceTensor, device_tensor, is_on_gpu
from afterglow.support.errors import UsageError
from afterglow.types import Array, Port, TensorType

MULTIPLE = 16
"""Bytes that addresses of inputs are multiples of; others are copied to memory that is."""


def run_on_device(
    workspace: Workspace,
    arrays: Sequence[Any],
    states: Mapping[str, DeviceBuffer],
    stream: int | None,
) -> list[CudaArray]:
    """Begin to run on a stream, by default that of the first array that says one.

    Arrays that are on another stream are waited for. It returns before the run has ended, unless
    the host runs a part of it, or is to see whether an index was out of range.
    """
    program = workspace.program
    if stream is None:
        arrays = [*map(known_array, arrays)]
        stream = stream_of(arrays)
    addresses = _addresses(workspace, program.interface.inputs, arrays, stream)
    given = workspace.use_states(states) if states else {}
    results = [new_result(workspace, *each, stream) for each in program.outputs]
    key = (*addresses, *[each.address for each in results], *given.values())
    run = workspace.runs.find(key)
    if run is None or program.host is not None:
        where = {f"input {i}": address for i, address in enumerate(addresses)}
        where |= {f"output {i}": each.address for i, each in enumerate(results)}
        workspace.addresses = {**workspace.fixed, **where, **given}
        run = workspace.captured(key)
    begin_run(workspace, run, stream, results, states)
    return results


def begin_run(
    workspace: Workspace,
    run: CapturedRun,
    stream: int,
    results: Sequence[CudaArray],
    states: Mapping[str, DeviceBuffer],
) -> None:
    """Replay a captured run; wait for its end if the host has something to do or to see."""
    program = workspace.program
    if run.only is not None:
        workspace.context.replay(run.only, stream, workspace.turn.event)
    else:
        inputs = program.interface.inputs
        workspace.replay(run, stream, workspace.host_steps(inputs, results, states))
    if not program.is_asynchronous:
        workspace.finish(stream)


def addresses_in_place(
    workspace: Workspace, inputs: Sequence[Port], arrays: Sequence[Any], stream: int
) -> list[int]:
    """Where inputs lie that each of many runs reads there; an error for one that has to be copied.

    The stream waits for those that another one writes, once.
    """
    for port, array in zip(inputs, arrays, strict=True):
        address = None if isinstance(array, np.ndarray) else getattr(array, "address", 0)
        if address is None or (isinstance(array, DeviceTensor) and address % MULTIPLE):
            raise UsageError(
                f"input {port.name!r} cannot be bound: "
                + ("it is on the host" if address is None else "its memory begins at odd bytes"),
                help="copy it to memory of its own on the GPU, and bind that",
            )
    return _addresses(workspace, inputs, arrays, stream)


def _addresses(
    workspace: Workspace, inputs: Sequence[Port], arrays: Sequence[Any], stream: int
) -> list[int]:
    """Where inputs lie; for those that another run gave, little has to be looked at."""
    session, found = workspace.session, []
    for number, (port, array) in enumerate(zip(inputs, arrays, strict=True)):
        is_plain = (
            type(array) is CudaArray
            and array.stream == stream
            and array.type is port.type
            and array.session is session
        )
        placing = None if is_plain else _Placing(workspace, stream)
        found.append(array.address if placing is None else placing.place(number, port, array))
    return found


def new_result(workspace: Workspace, type: TensorType, nbytes: int, stream: int) -> CudaArray:
    """Memory for an output, used again if some of its kind is free."""
    session = workspace.session
    memory = session.outputs.take(nbytes, stream) or session.allocate(nbytes)
    return CudaArray(type, memory, stream, workspace.turn)


class _Placing:
    """Puts inputs where a run on a stream finds them."""

    def __init__(self, workspace: Workspace, stream: int) -> None:
        self.workspace = workspace
        self.session = workspace.session
        self.context = workspace.context
        self.stream = stream

    def place(self, number: int, port: Port, given: Any) -> int:
        """Where an input lies, once the stream is made to wait for it."""
        if isinstance(given, CudaArray) and given.session is self.session:
            _check(port, given.dtype, given.shape)
            given.wait_on(self.stream)
            return given.address
        if isinstance(given, CudaBuffer):
            _check(port, np.dtype(given.type.dtype.numpy), given.type.shape)
            address = given.on(self.session)
            if given.turn is not None:
                self.context.wait(self.stream, given.turn.event)
            return address
        if isinstance(given, np.ndarray):
            return self._uploaded(number, port, given)
        return self._tensor_at(number, port, device_tensor(given))

    def _uploaded(self, number: int, port: Port, array: Array) -> int:
        """Where an array of the host lies when it is copied to the GPU."""
        _check(port, array.dtype, array.shape)
        address = self._staged(number)
        if array.nbytes:
            self.context.upload(address, as_bytes(np.ascontiguousarray(array)), self.stream)
        return address

    def _tensor_at(self, number: int, port: Port, tensor: DeviceTensor) -> int:
        _check(port, tensor.dtype, tensor.shape)
        self._check_place(port, tensor)
        if tensor.stream not in (None, self.stream):
            arrival = self.workspace.arrival
            self.context.record(arrival, tensor.stream or DEFAULT_STREAM)
            self.context.wait(self.stream, arrival)
        if tensor.address % MULTIPLE == 0 and tensor.address:
            return tensor.address
        address = self._staged(number)
        if port.type.nbytes:
            self.context.copy(address, tensor.address, port.type.nbytes, self.stream)
        return address

    def _staged(self, number: int) -> int:
        """Memory for an input that cannot be used where it lies, once the last run has ended."""
        self.context.wait(self.stream, self.workspace.turn.event)
        return self.workspace.staging.addresses[f"input {number}"]

    def _check_place(self, port: Port, tensor: DeviceTensor) -> None:
        here = self.session.facts.number
        if tensor.device not in (None, here):
            raise UsageError(
                f"input {port.name!r} is on GPU {tensor.device}, and the model on GPU {here}",
                help=f"copy it there, or compile the model for --target cuda:{tensor.device}",
            )
        if not tensor.is_dense:
            raise UsageError(
                f"input {port.name!r} does not lie in the memory of the GPU in order",
                help="give x.contiguous() (PyTorch) or cupy.ascontiguousarray(x)",
            )


def known_array(array: Any) -> Any:
    """An array as it is used; of other libraries what they say of it, asked once."""
    if type(array) is CudaArray:
        return array
    is_ours = isinstance(array, (np.ndarray, CudaBuffer, DeviceTensor))
    return array if is_ours or not is_on_gpu(array) else device_tensor(array)


def stream_of(arrays: Sequence[Any]) -> int:
    """The stream of the first array that says one."""
    if arrays and type(arrays[0]) is CudaArray:
        return arrays[0].stream
    streams = (getattr(array, "stream", None) for array in arrays)
    return next((stream for stream in streams if stream is not None), DEFAULT_STREAM)


def _check(port: Port, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    wanted = port.type.dtype.numpy
    if dtype == wanted and shape == port.type.shape:
        return
    raise UsageError(
        f"input {port.name!r} takes {port.type}, got {dtype}{[*shape]}",
        help="convert it, or compile the model for this type and shape",
    )
