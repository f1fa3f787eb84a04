"""NVIDIA's driver through ctypes: neither its toolkit nor its runtime library is needed."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_int
from functools import cache

from afterglow.backends.cuda.driver.context import CudaContext
from afterglow.backends.cuda.driver.library import Library, spelled
from afterglow.backends.cuda.driver.protocol import DeviceFacts

_MULTIPROCESSORS, _CLOCK_KHZ, _MEMORY_CLOCK_KHZ, _BUS_BITS, _CACHE = 16, 13, 36, 37, 38
_MAJOR, _MINOR, _SHARED_OPT_IN = 75, 76, 97


class CudaDriver:
    """The devices of NVIDIA's driver."""

    def __init__(self, library: Library) -> None:
        self.library = library

    def devices(self) -> Sequence[DeviceFacts]:
        """What the driver says of each."""
        count = c_int()
        self.library.call("cuDeviceGetCount", byref(count))
        return [self._facts(number) for number in range(count.value)]

    def open(self, number: int) -> CudaContext:
        """The primary context, which the runtime API, and so PyTorch, uses as well."""
        return CudaContext(self.library, self._handle(number))

    def _handle(self, number: int) -> int:
        found = c_int()
        self.library.call("cuDeviceGet", byref(found), number)
        return found.value

    def _facts(self, number: int) -> DeviceFacts:
        device = self._handle(number)
        name = ctypes.create_string_buffer(256)
        self.library.call("cuDeviceGetName", name, len(name), device)
        transfers = 2 * 1000 * self._attribute(_MEMORY_CLOCK_KHZ, device)
        return DeviceFacts(
            number=number,
            name=name.value.decode(),
            arch=10 * self._attribute(_MAJOR, device) + self._attribute(_MINOR, device),
            multiprocessors=self._attribute(_MULTIPROCESSORS, device),
            memory_bytes=self.library.made("cuDeviceTotalMem_v2", device),
            shared_bytes=self._attribute(_SHARED_OPT_IN, device),
            cache_bytes=self._attribute(_CACHE, device),
            clock=1000.0 * self._attribute(_CLOCK_KHZ, device),
            bandwidth=float(transfers * self._attribute(_BUS_BITS, device) // 8),
            driver=spelled(self.library.version),
            uuid=self._uuid(device),
        )

    def _attribute(self, attribute: int, device: int) -> int:
        found = c_int()
        self.library.call("cuDeviceGetAttribute", byref(found), attribute, device)
        return found.value

    def _uuid(self, device: int) -> str:
        if "cuDeviceGetUuid_v2" not in self.library.functions:
            return ""
        found = (ctypes.c_ubyte * 16)()
        self.library.call("cuDeviceGetUuid_v2", byref(found), device)
        return bytes(found).hex()


@cache
def cuda_driver() -> CudaDriver:
    """The driver of this machine, opened when it is first asked for."""
    return CudaDriver(Library())
