"""What is open on a device: a context, until the device fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from afterglow.backends.opencl.driver import find, library
from afterglow.backends.opencl.limits import Limits
from afterglow.support.errors import DeviceError
from afterglow.types import Array

_NO_MEMORY = ("MEM_OBJECT_ALLOCATION_FAILURE", "OUT_OF_HOST_MEMORY", "INVALID_BUFFER_SIZE")
"""Errors of drivers that leave a context as it was."""


class Session:
    """A context of a device, which programs and buffers share. After an error it is lost."""

    def __init__(self, device: Any, limits: Limits) -> None:
        cl = library()
        self.device = device
        self.limits = limits
        self.is_lost = False
        self.context = cl.Context([device])
        self.queue = cl.CommandQueue(self.context, device)
        """For copies, in order."""
        any_order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
        self.can_reorder = bool(device.queue_properties & any_order)
        self.reorders = self.can_reorder and not limits.is_processor
        """Whether commands had better run at once: on a processor each has all units to itself."""

    def new_queue(self, *, in_order: bool = True, timed: bool = False) -> Any:
        """A queue of commands; one that is not in order needs a device that has such."""
        cl = library()
        flags = cl.command_queue_properties
        properties = 0 if in_order else flags.OUT_OF_ORDER_EXEC_MODE_ENABLE
        if timed:
            properties |= flags.PROFILING_ENABLE
        return cl.CommandQueue(self.context, self.device, properties=properties)

    def allocate(self, nbytes: int) -> Any:
        """Memory on the device; drivers have none of no bytes."""
        cl = library()
        with self.guarded("allocate memory", nbytes):
            return cl.Buffer(self.context, cl.mem_flags.READ_WRITE, max(nbytes, 1))

    def upload(self, memory: Any, data: Array) -> None:
        """Copy bytes of the host to the beginning of memory."""
        if data.nbytes:
            with self.guarded("copy to the device", data.nbytes):
                library().enqueue_copy(self.queue, memory, data, is_blocking=True)

    @contextmanager
    def guarded(self, doing: str, nbytes: int = 0) -> Iterator[None]:
        """Turn errors of the driver into ours; all but a lack of memory lose the context."""
        cl = library()
        try:
            yield
        except cl.Error as error:
            if status_of(error) in _NO_MEMORY:
                raise self._out_of_memory(doing, nbytes) from error
            self.lose()
            raise DeviceError(
                f"{self.limits.name} failed to {doing}: {error}",
                help="the next run begins anew on this device; if it fails again, use another",
            ) from error

    def lose(self) -> None:
        """Have whoever comes next begin with a new context."""
        self.is_lost = True
        with _LOCK:
            if _OPEN.get(self.limits.name) is self:
                del _OPEN[self.limits.name]

    def _out_of_memory(self, doing: str, nbytes: int) -> DeviceError:
        wanted = f", which needs {nbytes:,} bytes" if nbytes else ""
        return DeviceError(
            f"{self.limits.name} is out of memory: it cannot {doing}{wanted}",
            help=memory_of(self.limits),
        )


def status_of(error: Any) -> str:
    """What the standard calls the status code of an error of the driver."""
    return str(library().status_code.to_string(error.code, "%d"))


def memory_of(limits: Limits) -> str:
    """What memory a device has, for errors."""
    most = min(limits.buffer_bytes, limits.memory_bytes)
    return f"it has {limits.memory_bytes:,} bytes, of which one buffer may take {most:,}"


def session(target: str) -> Session:
    """The session of the device that a target names, opened if need be."""
    device, limits = find(target)
    with _LOCK:
        if limits.name not in _OPEN:
            _OPEN[limits.name] = _opened(device, limits)
        return _OPEN[limits.name]


def _opened(device: Any, limits: Limits) -> Session:
    try:
        return Session(device, limits)
    except library().Error as error:
        raise DeviceError(
            f"{limits.name} cannot be opened: {error}",
            help="the next run tries it again; if it fails again, use another device",
        ) from error


_OPEN: dict[str, Session] = {}
_LOCK = Lock()
