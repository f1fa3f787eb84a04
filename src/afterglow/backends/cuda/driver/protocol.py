"""What the runtime asks of a driver: memory, copies, launches, streams, events and graphs.

`cuda.py` gives it by libcuda; the emulator by the memory and the processor of the host. Addresses
and streams are numbers, as CUDA has them: stream 0 is the default one. Functions, events and graphs
are whatever the driver makes of them. Every method may raise `CudaError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

Function: TypeAlias = Any
"""A kernel that is loaded."""
Event: TypeAlias = Any
"""A point in the order of a stream, and when it was reached."""
Graph: TypeAlias = Any
"""Commands that were captured, ready to be replayed."""

WARP = 32
"""Threads that run together: blocks consist of these."""
OUT_OF_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"
NO_DEVICE = "CUDA_ERROR_NO_DEVICE"
NO_CODE = ("CUDA_ERROR_NO_BINARY_FOR_GPU", "CUDA_ERROR_INVALID_IMAGE", "CUDA_ERROR_INVALID_PTX")
"""Names of errors of a driver that cannot load machine code."""


class CudaError(Exception):
    """A call of the driver that failed: the call, and the name, number and text of the error."""

    def __init__(self, call: str, name: str, code: int, text: str = "") -> None:
        super().__init__(f"{call} failed: {name}" + (f" ({text})" if text else ""))
        self.call = call
        self.name = name
        self.code = code


@dataclass(frozen=True)
class DeviceFacts:
    """What a driver says of a GPU."""

    number: int
    """Its place among the devices of the driver."""
    name: str
    arch: int
    """Its compute capability, without the point: 90 is 9.0."""
    multiprocessors: int
    memory_bytes: int
    shared_bytes: int
    """Shared memory of one block at most, if the kernel asks for it."""
    cache_bytes: int
    """Bytes of its L2 cache."""
    clock: float
    """Cycles a second of its multiprocessors at most."""
    bandwidth: float
    """Bytes a second of its memory at most; 0 if the driver does not say."""
    driver: str
    """The version of CUDA that the driver has: 12.8."""
    uuid: str = ""
    """Tells GPUs of the same kind apart."""


class Context(Protocol):
    """An open device. Any thread may call any method."""

    def alloc(self, nbytes: int) -> int:
        """Memory of the device, at an address that is a multiple of 256."""

    def free(self, address: int) -> None:
        """Give memory of the device back, once whatever was begun on it has ended."""

    def alloc_host(self, nbytes: int) -> Array:
        """Page-locked memory of the host, as bytes; it lives until `free_host`."""

    def free_host(self, array: Array) -> None:
        """Give memory back that `alloc_host` gave."""

    def upload(self, address: int, data: Array, stream: int) -> None:
        """Begin to copy contiguous bytes of the host to the device."""

    def download(self, data: Array, address: int, stream: int) -> None:
        """Begin to copy bytes of the device into a contiguous array of the host."""

    def copy(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """Begin to copy bytes within the memory of the device."""

    def fill(self, address: int, nbytes: int, stream: int) -> None:
        """Begin to write zeros."""

    def load(self, code: bytes, symbol: str, shared: int) -> Function:
        """A kernel of some machine code, allowed to use so much shared memory a block."""

    def unload(self, function: Function) -> None:
        """Give back what `load` gave; nothing of it may be under way."""

    def launch(
        self,
        function: Function,
        grid: tuple[int, int, int],
        threads: int,
        shared: int,
        pointers: Sequence[int],
        stream: int,
        *,
        pdl: bool = False,
    ) -> None:
        """Begin to run a kernel on addresses; what Triton's kernels take besides is added here.

        With `pdl` it may begin before the kernel in front of it has ended: it waits itself.
        """

    def new_stream(self) -> int:
        """A stream that waits for no other."""

    def free_stream(self, stream: int) -> None:
        """Give a stream back."""

    def synchronize(self, stream: int) -> None:
        """Wait until everything that was begun on a stream has ended."""

    def new_event(self, *, timed: bool = False) -> Event:
        """An event, which says when it was reached if it is timed."""

    def free_event(self, event: Event) -> None:
        """Give an event back."""

    def record(self, event: Event, stream: int) -> None:
        """Have an event be reached when all that was begun on a stream before has ended.

        While the stream is captured, timed events become part of the graph: each replay reaches
        them anew.
        """

    def wait(self, stream: int, event: Event) -> None:
        """Have a stream go on when an event is reached; at once if it was never recorded."""

    def elapsed(self, start: Event, end: Event) -> float:
        """The seconds between two timed events, both of which were reached."""

    def begin_capture(self, stream: int) -> None:
        """From now on, keep what is begun on a stream, rather than to do it."""

    def end_capture(self, stream: int) -> Graph:
        """A graph of what was kept, ready to be replayed. After an error of a call, too."""

    def replay(self, graph: Graph, stream: int, turn: Event | None = None) -> None:
        """Begin to do what a graph holds.

        With `turn` it waits for that event, which is then reached anew when the graph has ended: so
        users of the same memory take turns, whatever their streams.
        """

    def free_graph(self, graph: Graph) -> None:
        """Give a graph back; one that is under way goes on to its end."""

    def memory(self) -> tuple[int, int]:
        """The bytes of the device's memory that are free, and all."""

    def close(self) -> bool:
        """Give the context back, with all that was allocated in it.

        Whether it is gone: not if something else in this process, such as PyTorch, uses it as well.
        Asked again, it only says that.
        """


class Driver(Protocol):
    """A driver for devices."""

    def devices(self) -> Sequence[DeviceFacts]:
        """All devices of this machine, in the driver's order; none is an error of the driver."""

    def open(self, number: int) -> Context:
        """The context of a device, which everything in this process shares that uses the device."""
