"""What is open on a GPU: a context, until the GPU fails."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock

from afterglow.backends.cuda.driver.cuda import cuda_driver
from afterglow.backends.cuda.driver.names import DEVICE
from afterglow.backends.cuda.driver.protocol import (
    NO_DEVICE,
    OUT_OF_MEMORY,
    CudaError,
    DeviceFacts,
    Driver,
)
from afterglow.backends.cuda.recycling import Recycler
from afterglow.support.errors import AfterglowError, DeviceError, UsageError
from afterglow.types import Array

CHECK = "nvidia-smi says whether the driver sees a GPU; containers need one passed to them"
AGAIN = "the next run tries it again; if it fails again, use another device"


class Session:
    """A context of a GPU, which programs and buffers share. After some errors it is lost."""

    def __init__(self, driver: Driver, facts: DeviceFacts) -> None:
        self.driver = driver
        self.facts = facts
        self.name = name_of(facts)
        self.is_lost = False
        self.context = driver.open(facts.number)
        self.stream = self.context.new_stream()
        """For copies, in order."""
        self.outputs = Recycler()

    def allocate(self, nbytes: int) -> DeviceMemory:
        """Memory on the device; if there is none left, what was kept for later runs is used."""
        try:
            return DeviceMemory(self, nbytes)
        except CudaError as error:
            if error.name != OUT_OF_MEMORY or not self.outputs.clear():
                raise self.failure("allocate memory", error, nbytes) from error
        with self.guarded("allocate memory", nbytes):
            return DeviceMemory(self, nbytes)

    def upload(self, address: int, data: Array) -> None:
        """Copy bytes of the host to the device."""
        if data.nbytes:
            with self.guarded("copy to the device", data.nbytes):
                self.context.upload(address, data, self.stream)
                self.context.synchronize(self.stream)

    def download(self, data: Array, address: int) -> None:
        """Copy bytes of the device to the host."""
        if data.nbytes:
            with self.guarded("copy from the device", data.nbytes):
                self.context.download(data, address, self.stream)
                self.context.synchronize(self.stream)

    def clear(self, address: int, nbytes: int) -> None:
        """Fill memory with zeros."""
        if nbytes:
            with self.guarded("clear memory", nbytes):
                self.context.fill(address, nbytes, self.stream)
                self.context.synchronize(self.stream)

    @contextmanager
    def guarded(self, doing: str, nbytes: int = 0) -> Iterator[None]:
        """Turn errors of the driver into ours."""
        try:
            yield
        except CudaError as error:
            raise self.failure(doing, error, nbytes) from error

    def failure(self, doing: str, error: CudaError, nbytes: int = 0) -> DeviceError:
        """What is said of an error of the driver; the session is lost if the context is."""
        if error.name == OUT_OF_MEMORY:
            return self._out_of_memory(doing, nbytes)
        if not self._is_alive():
            self.lose()
        return DeviceError(f"{self.name} failed to {doing}: {error}", help=AGAIN)

    def lose(self) -> None:
        """Have whoever comes next begin with a new context."""
        with _LOCK:
            self.is_lost = True
            if _OPEN.get(self._key) is self:
                del _OPEN[self._key]
                _LOST.append(self)

    def _is_alive(self) -> bool:
        """Whether the context works: after an error of a kernel, all calls return that error."""
        if self.is_lost:
            return False
        try:
            self.context.synchronize(self.stream)
        except CudaError:
            return False
        return True

    @property
    def _key(self) -> tuple[Driver, int]:
        return self.driver, self.facts.number

    def _out_of_memory(self, doing: str, nbytes: int) -> DeviceError:
        wanted = f", which needs {nbytes:,} bytes" if nbytes else ""
        return DeviceError(
            f"{self.name} is out of memory: it cannot {doing}{wanted}", help=self.memory_here()
        )

    def memory_here(self) -> str:
        """What memory there is, for errors."""
        whole = f"it has {self.facts.memory_bytes:,} bytes"
        try:
            return f"{whole}, of which {self.context.memory()[0]:,} are free"
        except CudaError:
            return whole

    @staticmethod
    def close_lost(driver: Driver, facts: DeviceFacts) -> None:
        """Give lost contexts of a device back, so that the next is a new one."""
        for lost in [*_LOST]:
            if lost._key != (driver, facts.number):
                continue
            if not lost.context.close():
                raise DeviceError(
                    f"{lost.name} failed before, and cannot be opened anew: something else in this "
                    "process, such as PyTorch, uses it as well",
                    help="start the process again, or use another device",
                )
            _LOST.remove(lost)


class DeviceMemory:
    """Memory of a device, given back when nobody has it any more."""

    __slots__ = ("__weakref__", "address", "nbytes", "session")

    def __init__(self, session: Session, nbytes: int) -> None:
        self.session = session
        self.nbytes = nbytes
        self.address = 0
        self.address = session.context.alloc(nbytes)

    def __del__(self) -> None:
        # addresses of a lost context may be those of other memory in the next
        if self.address and not self.session.is_lost and not sys.is_finalizing():
            with suppress(CudaError):
                self.session.context.free(self.address)


def name_of(facts: DeviceFacts) -> str:
    """What a user writes to name a GPU."""
    return f"{DEVICE}:{facts.number}"


def devices(driver: Driver | None = None) -> Sequence[DeviceFacts]:
    """The GPUs of a driver, NVIDIA's if none is given; an error if there is none."""
    try:
        found = (driver or cuda_driver()).devices()
    except CudaError as error:
        raise _unusable(error) from error
    if not found:
        raise UsageError("CUDA finds no GPU", help=CHECK)
    return found


def session(number: int, driver: Driver | None = None) -> Session:
    """The session of the GPU of a number, opened if need be."""
    using = driver or cuda_driver()
    facts = devices(using)[number]
    with _LOCK:
        found = _OPEN.get((using, number))
        if found is None:
            found = _OPEN[using, number] = _opened(using, facts)
        return found


def _opened(driver: Driver, facts: DeviceFacts) -> Session:
    try:
        Session.close_lost(driver, facts)
        return Session(driver, facts)
    except CudaError as error:
        if error.name == OUT_OF_MEMORY:
            raise DeviceError(
                f"{name_of(facts)} is out of memory: it cannot be opened",
                help=f"it has {facts.memory_bytes:,} bytes, which other processes use",
            ) from error
        raise DeviceError(f"{name_of(facts)} cannot be opened: {error}", help=AGAIN) from error


def _unusable(error: CudaError) -> AfterglowError:
    if error.name == NO_DEVICE:
        return UsageError("CUDA finds no GPU", help=CHECK)
    return UsageError(f"CUDA cannot be used: {error}", help=CHECK)


_OPEN: dict[tuple[Driver, int], Session] = {}
_LOST: list[Session] = []
"""Sessions whose contexts have not been given back yet."""
_LOCK = Lock()
