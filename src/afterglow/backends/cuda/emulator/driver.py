"""The driver of a device that the processor emulates: everything is done as soon as it is begun.

Triton is imported when the first kernel is loaded.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from itertools import count
from typing import Any, TypeAlias

import numpy as np

from afterglow.backends.cuda.driver.protocol import OUT_OF_MEMORY, CudaError, DeviceFacts
from afterglow.backends.cuda.emulator.code import decode
from afterglow.backends.cuda.emulator.memory import AccessError, Memory
from afterglow.backends.cuda.target import EMULATED, KINDS
from afterglow.support.errors import UsageError
from afterglow.types import Array

Commands: TypeAlias = list[Callable[[], None]]
_LARGEST_GRID = (2**31 - 1, 65535, 65535)
_WARP = 32
_INVALID = ("CUDA_ERROR_INVALID_VALUE", 1)
_NO_MEMORY = (OUT_OF_MEMORY, 2)
_BAD_IMAGE = ("CUDA_ERROR_INVALID_IMAGE", 200)
_CAPTURED = ("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", 900)
_NOT_CAPTURED = ("CUDA_ERROR_ILLEGAL_STATE", 401)
_BAD_ADDRESS = ("CUDA_ERROR_ILLEGAL_ADDRESS", 700)
_FAILED = ("CUDA_ERROR_LAUNCH_FAILED", 719)


class EmulatedDriver:
    """A driver with one device."""

    def devices(self) -> Sequence[DeviceFacts]:
        """The processor, as a GPU."""
        kind = KINDS[EMULATED]
        return [
            DeviceFacts(
                number=0,
                name=EMULATED,
                arch=kind.arch,
                multiprocessors=kind.units,
                memory_bytes=kind.memory_bytes,
                shared_bytes=kind.shared_bytes,
                cache_bytes=0,
                clock=0.0,
                bandwidth=kind.bandwidth,
                driver="0.0",
            )
        ]

    def open(self, number: int) -> EmulatedContext:
        """A context of its own."""
        return EmulatedContext(KINDS[EMULATED].memory_bytes)


@cache
def emulated_driver() -> EmulatedDriver:
    """The driver that the whole process uses."""
    return EmulatedDriver()


class EmulatedEvent:
    """When a point in the order of a stream was reached, and the capture that it belongs to."""

    def __init__(self) -> None:
        self.reached = 0.0
        self.capture: Commands | None = None


class EmulatedContext:
    """Memory of the host, and kernels that are interpreted."""

    def __init__(self, memory_bytes: int) -> None:
        self._memory = Memory()
        self._memory_bytes = memory_bytes
        self._numbers = count(1)
        self._captures: dict[int, Commands] = {}
        self._machine: Any = None
        self._lock = threading.RLock()

    def alloc(self, nbytes: int) -> int:
        """Memory full of NaN."""
        with self._lock:
            if self._memory.used + nbytes > self._memory_bytes:
                raise CudaError("alloc", *_NO_MEMORY)
            return self._memory.allocate(nbytes)

    def free(self, address: int) -> None:
        """Give memory back."""
        with self._lock:
            try:
                self._memory.release(address)
            except KeyError:
                raise CudaError("free", *_INVALID, "not the address of a block") from None

    def alloc_host(self, nbytes: int) -> Array:
        """Memory of the host."""
        return np.empty(nbytes, np.uint8)

    def free_host(self, array: Array) -> None:
        """Nothing: the array frees itself."""

    def upload(self, address: int, data: Array, stream: int) -> None:
        """Copy to the device."""

        def run() -> None:
            self._bytes("upload", address, data.nbytes)[:] = data.reshape(-1).view(np.uint8)

        self._do(stream, run)

    def download(self, data: Array, address: int, stream: int) -> None:
        """Copy from the device."""

        def run() -> None:
            data.reshape(-1).view(np.uint8)[:] = self._bytes("download", address, data.nbytes)

        self._do(stream, run)

    def copy(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """Copy within the device."""

        def run() -> None:
            self._bytes("copy", to, nbytes)[:] = self._bytes("copy", source, nbytes)

        self._do(stream, run)

    def fill(self, address: int, nbytes: int, stream: int) -> None:
        """Write zeros."""

        def run() -> None:
            self._bytes("fill", address, nbytes)[:] = 0

        self._do(stream, run)

    def load(self, code: bytes, symbol: str, shared: int) -> Any:
        """A kernel, which `code.emulated_kernels` made."""
        try:
            facts, text = decode(bytes(code))
        except ValueError as error:
            raise CudaError("load", *_BAD_IMAGE, str(error)) from error
        with self._lock:
            if self._machine is None:
                self._machine = _interpreter().Machine(self._memory)
            return self._machine.load(symbol, text, **facts)

    def unload(self, function: Any) -> None:
        """Nothing: kernels free themselves."""

    def launch(
        self,
        function: Any,
        grid: tuple[int, int, int],
        threads: int,
        shared: int,
        pointers: Sequence[int],
        stream: int,
        *,
        pdl: bool = False,
    ) -> None:
        """Run a kernel."""
        if not all(0 < n <= most for n, most in zip(grid, _LARGEST_GRID, strict=True)):
            raise CudaError("launch", *_INVALID, f"no grid can be {grid}")
        if threads != _WARP * function.warps:
            wanted = _WARP * function.warps
            raise CudaError("launch", *_INVALID, f"{function.name} has {wanted} threads a block")
        addresses = tuple(pointers)

        def run() -> None:
            try:
                self._machine.launch(function, tuple(grid), addresses, is_dependent=pdl)
            except _interpreter().KernelError as error:
                is_access = isinstance(error.__cause__, AccessError)
                kind = _BAD_ADDRESS if is_access else _FAILED
                raise CudaError("launch", *kind, str(error)) from error

        self._do(stream, run)

    def new_stream(self) -> int:
        """The number of a stream."""
        return next(self._numbers)

    def free_stream(self, stream: int) -> None:
        """Nothing: a stream is a number."""

    def synchronize(self, stream: int) -> None:
        """Nothing is ever under way."""
        if stream in self._captures:
            raise CudaError("synchronize", *_CAPTURED)

    def new_event(self, *, timed: bool = False) -> EmulatedEvent:
        """An event."""
        return EmulatedEvent()

    def free_event(self, event: EmulatedEvent) -> None:
        """Nothing: the event frees itself."""

    def record(self, event: EmulatedEvent, stream: int) -> None:
        """Note the time."""

        def run() -> None:
            event.reached = time.perf_counter()

        event.capture = self._captures.get(stream)
        self._do(stream, run)

    def wait(self, stream: int, event: EmulatedEvent) -> None:
        """Join the capture of the event, if it belongs to one: all else is done already."""
        if any(event.capture is commands for commands in self._captures.values()):
            assert event.capture is not None
            self._captures[stream] = event.capture

    def elapsed(self, start: EmulatedEvent, end: EmulatedEvent) -> float:
        """The seconds between two events."""
        return end.reached - start.reached

    def begin_capture(self, stream: int) -> None:
        """Keep what is begun from now on."""
        if stream in self._captures:
            raise CudaError("begin_capture", *_CAPTURED)
        self._captures[stream] = []

    def end_capture(self, stream: int) -> Commands:
        """What was kept."""
        commands = self._captures.get(stream)
        if commands is None:
            raise CudaError("end_capture", *_NOT_CAPTURED)
        # also of streams that joined
        self._captures = {s: c for s, c in self._captures.items() if c is not commands}
        return commands

    def replay(self, graph: Commands, stream: int, turn: EmulatedEvent | None = None) -> None:
        """Do what was kept."""

        def run() -> None:
            for command in graph:
                command()

        self._do(stream, run)

    def free_graph(self, graph: Commands) -> None:
        """Nothing: the graph frees itself."""

    def memory(self) -> tuple[int, int]:
        """The bytes that are free, and all."""
        return self._memory_bytes - self._memory.used, self._memory_bytes

    def close(self) -> bool:
        """Nothing: the context frees itself."""
        return True

    def _do(self, stream: int, command: Callable[[], None]) -> None:
        """Do something now, or keep it."""
        with self._lock:
            if stream in self._captures:
                self._captures[stream].append(command)
            else:
                command()

    def _bytes(self, call: str, address: int, nbytes: int) -> Array:
        try:
            return self._memory.bytes_at(address, nbytes)
        except AccessError as error:
            raise CudaError(call, *_BAD_ADDRESS, str(error)) from error


def _interpreter() -> Any:
    """The module that interprets kernels."""
    try:
        return import_module("afterglow.backends.cuda.emulator.kernel")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "triton":
            raise
        raise UsageError(
            "emulating CUDA needs triton, which is not installed",
            help="pip install 'afterglow[cuda]'",
        ) from error
