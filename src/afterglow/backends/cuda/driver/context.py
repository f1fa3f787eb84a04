"""An open device: memory, copies, launches and graphs, each as a few calls of the driver."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

import numpy as np

from afterglow.backends.cuda.driver.library import Library
from afterglow.backends.cuda.driver.structures import (
    PROGRAMMATIC,
    CudaEvent,
    LaunchAttribute,
    LaunchConfig,
    LoadedKernel,
)
from afterglow.types import Array

DEFAULT_SHARED = 48 << 10
"""Shared memory that a block may have without being asked for."""
_TRITON_POINTERS = 2
"""Pointers behind the parameters of Triton's kernels: scratch memory that ours do without."""

_RELAXED = 2
_NON_BLOCKING = 1
_NO_TIMING = 2
_EXTERNAL = 1
_PORTABLE = 1
_MAX_SHARED = 8


class CudaContext:
    """The primary context of a device; each call makes it current for its thread meanwhile.

    It is what was current before that is current afterwards: others rely on theirs.
    """

    def __init__(self, library: Library, device: int) -> None:
        self.library = library
        self.device = device
        self._context = c_void_p(library.made("cuDevicePrimaryCtxRetain", device))
        self._push = library.functions["cuCtxPushCurrent_v2"]
        self._pop = library.functions["cuCtxPopCurrent_v2"]
        self._graph_launch = library.functions["cuGraphLaunch"]
        self._wait_event = library.functions["cuStreamWaitEvent"]
        self._record_event = library.functions["cuEventRecord"]
        self._popped = byref(c_void_p())  # what is written there is read by nobody
        self._capturing: set[int] = set()
        self._is_closed = False

    def alloc(self, nbytes: int) -> int:
        """Memory of the device; the driver has none of no bytes."""
        return self._made("cuMemAlloc_v2", max(nbytes, 1))

    def free(self, address: int) -> None:
        """Give memory back; the driver waits for what uses it."""
        self._call("cuMemFree_v2", address)

    def alloc_host(self, nbytes: int) -> Array:
        """Page-locked memory of the host, as bytes."""
        raw = (ctypes.c_ubyte * nbytes).from_address(
            self._made("cuMemHostAlloc", nbytes, _PORTABLE)
        )
        return np.ctypeslib.as_array(raw)

    def free_host(self, array: Array) -> None:
        """Give page-locked memory back."""
        self._call("cuMemFreeHost", array.ctypes.data)

    def upload(self, address: int, data: Array, stream: int) -> None:
        """Begin to copy to the device; memory that is not page-locked is read before this ends."""
        self._call("cuMemcpyHtoDAsync_v2", address, data.ctypes.data, data.nbytes, stream)

    def download(self, data: Array, address: int, stream: int) -> None:
        """Begin to copy to the host."""
        self._call("cuMemcpyDtoHAsync_v2", data.ctypes.data, address, data.nbytes, stream)

    def copy(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """Begin to copy within the device."""
        self._call("cuMemcpyDtoDAsync_v2", to, source, nbytes, stream)

    def fill(self, address: int, nbytes: int, stream: int) -> None:
        """Begin to write zeros."""
        self._call("cuMemsetD8Async", address, 0, nbytes, stream)

    def load(self, code: bytes, symbol: str, shared: int) -> LoadedKernel:
        """The kernel of a cubin."""
        module = self._made("cuModuleLoadData", code)
        function = self._made("cuModuleGetFunction", module, symbol.encode())
        if shared > DEFAULT_SHARED:
            self._call("cuFuncSetAttribute", function, _MAX_SHARED, shared)
        return LoadedKernel(module, function)

    def unload(self, function: LoadedKernel) -> None:
        """Give the module of a kernel back."""
        self._call("cuModuleUnload", function.module)

    def launch(
        self,
        function: LoadedKernel,
        grid: tuple[int, int, int],
        threads: int,
        shared: int,
        pointers: Sequence[int],
        stream: int,
        *,
        pdl: bool = False,
    ) -> None:
        """Begin to run a kernel."""
        count = len(pointers) + _TRITON_POINTERS
        values = (c_uint64 * count)(*pointers, *[0] * _TRITON_POINTERS)
        first = ctypes.addressof(values)
        places = (c_void_p * count)(*(first + 8 * i for i in range(count)))
        attributes = (LaunchAttribute * 1)()
        attributes[0].id, attributes[0].value[0] = PROGRAMMATIC, 1
        block, attribute = (threads, 1, 1), ctypes.addressof(attributes)
        config = LaunchConfig(grid, block, shared, stream, attribute, int(pdl))
        self._call("cuLaunchKernelEx", byref(config), function.function, places, None)

    def new_stream(self) -> int:
        """A stream that does not wait for the default one either."""
        return self._made("cuStreamCreate", _NON_BLOCKING)

    def free_stream(self, stream: int) -> None:
        """Give a stream back."""
        self._call("cuStreamDestroy_v2", stream)

    def synchronize(self, stream: int) -> None:
        """Wait for a stream."""
        self._call("cuStreamSynchronize", stream)

    def new_event(self, *, timed: bool = False) -> CudaEvent:
        """An event."""
        return CudaEvent(self._made("cuEventCreate", 0 if timed else _NO_TIMING), timed)

    def free_event(self, event: CudaEvent) -> None:
        """Give an event back."""
        self._call("cuEventDestroy_v2", event.handle)

    def record(self, event: CudaEvent, stream: int) -> None:
        """Have an event be reached; a timed one as a node of its own if the stream is captured."""
        if event.timed and stream in self._capturing:
            self._call("cuEventRecordWithFlags", event.handle, stream, _EXTERNAL)
        else:
            self._call("cuEventRecord", event.handle, stream)

    def wait(self, stream: int, event: CudaEvent) -> None:
        """Have a stream wait."""
        self._call("cuStreamWaitEvent", stream, event.handle, 0)

    def elapsed(self, start: CudaEvent, end: CudaEvent) -> float:
        """The seconds between two events."""
        milliseconds = c_float()
        self._call("cuEventElapsedTime", byref(milliseconds), start.handle, end.handle)
        return milliseconds.value * 1e-3

    def begin_capture(self, stream: int) -> None:
        """Capture a stream; other threads and streams may do as they like meanwhile."""
        self._call("cuStreamBeginCapture_v2", stream, _RELAXED)
        self._capturing.add(stream)

    def end_capture(self, stream: int) -> int:
        """What was captured, as an executable graph."""
        self._capturing.discard(stream)
        captured = c_void_p()
        self._call("cuStreamEndCapture", stream, byref(captured))
        try:
            return self._made("cuGraphInstantiateWithFlags", captured, 0)
        finally:
            self._call("cuGraphDestroy", captured)

    def replay(self, graph: int, stream: int, turn: CudaEvent | None = None) -> None:
        """Launch a graph; this is what a run costs the host, so that nothing is made here."""
        status = self._push(self._context)
        if status:
            raise self.library.error("cuCtxPushCurrent_v2", status)
        call = "cuGraphLaunch"
        if turn is not None:
            status = self._wait_event(stream, turn.handle, 0)
            call = "cuStreamWaitEvent" if status else call
        status = status or self._graph_launch(graph, stream)
        if turn is not None and not status:
            status = self._record_event(turn.handle, stream)
            call = "cuEventRecord" if status else call
        self._pop(self._popped)
        if status:
            raise self.library.error(call, status)

    def free_graph(self, graph: int) -> None:
        """Give an executable graph back."""
        self._call("cuGraphExecDestroy", graph)

    def memory(self) -> tuple[int, int]:
        """The bytes that are free, and all."""
        free, total = c_size_t(), c_size_t()
        self._call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value, total.value

    def close(self) -> bool:
        """Let the primary context go; whether nobody else holds it, so that it is gone."""
        if not self._is_closed:
            self._is_closed = True
            self.library.call("cuDevicePrimaryCtxRelease_v2", self.device)
        flags, active = c_uint(), c_int()
        self.library.call("cuDevicePrimaryCtxGetState", self.device, byref(flags), byref(active))
        return not active.value

    def _call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver in this context."""
        status = self._push(self._context)
        if status:
            raise self.library.error("cuCtxPushCurrent_v2", status)
        try:
            self.library.call(name, *arguments)
        finally:
            self._pop(self._popped)

    def _made(self, name: str, *arguments: Any) -> int:
        """The number that a function stores at its first parameter."""
        found = c_uint64()
        self._call(name, byref(found), *arguments)
        return found.value
