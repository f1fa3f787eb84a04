"""The library that NVIDIA's driver installs: its functions, declared and checked."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from afterglow.backends.cuda.driver.protocol import CudaError
from afterglow.support.errors import UsageError

LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
LEAST_VERSION = 12_000
"""The oldest version of CUDA that loads our machine code: 12.0."""
UPDATE = "install a driver of NVIDIA with CUDA 12 or later (525 or later on Linux)"

_PARAMETERS: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (c_void_p,),
    "cuDeviceGetCount": (c_void_p,),
    "cuDeviceGet": (c_void_p, c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetAttribute": (c_void_p, c_int, c_int),
    "cuDeviceGetUuid_v2": (c_void_p, c_int),
    "cuDeviceTotalMem_v2": (c_void_p, c_int),
    "cuDevicePrimaryCtxRetain": (c_void_p, c_int),
    "cuDevicePrimaryCtxRelease_v2": (c_int,),
    "cuDevicePrimaryCtxGetState": (c_int, c_void_p, c_void_p),
    "cuCtxPushCurrent_v2": (c_void_p,),
    "cuCtxPopCurrent_v2": (c_void_p,),
    "cuMemGetInfo_v2": (c_void_p, c_void_p),
    "cuMemAlloc_v2": (c_void_p, c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuMemHostAlloc": (c_void_p, c_size_t, c_uint),
    "cuMemFreeHost": (c_void_p,),
    "cuMemcpyHtoDAsync_v2": (c_uint64, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync_v2": (c_void_p, c_uint64, c_size_t, c_void_p),
    "cuMemcpyDtoDAsync_v2": (c_uint64, c_uint64, c_size_t, c_void_p),
    "cuMemsetD8Async": (c_uint64, ctypes.c_ubyte, c_size_t, c_void_p),
    "cuModuleLoadData": (c_void_p, c_char_p),
    "cuModuleUnload": (c_void_p,),
    "cuModuleGetFunction": (c_void_p, c_void_p, c_char_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuLaunchKernelEx": (c_void_p, c_void_p, c_void_p, c_void_p),
    "cuStreamCreate": (c_void_p, c_uint),
    "cuStreamDestroy_v2": (c_void_p,),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamWaitEvent": (c_void_p, c_void_p, c_uint),
    "cuStreamBeginCapture_v2": (c_void_p, c_int),
    "cuStreamEndCapture": (c_void_p, c_void_p),
    "cuEventCreate": (c_void_p, c_uint),
    "cuEventDestroy_v2": (c_void_p,),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventRecordWithFlags": (c_void_p, c_void_p, c_uint),
    "cuEventElapsedTime": (c_void_p, c_void_p, c_void_p),
    "cuGraphInstantiateWithFlags": (c_void_p, c_void_p, c_uint64),
    "cuGraphLaunch": (c_void_p, c_void_p),
    "cuGraphDestroy": (c_void_p,),
    "cuGraphExecDestroy": (c_void_p,),
}
"""The functions of the driver that are used, with the types of their parameters."""
_OPTIONAL = ("cuDeviceGetUuid_v2",)
_TEXTS = ("cuGetErrorName", "cuGetErrorString")


class Library:
    """The driver's library: its functions, each of which raises `CudaError` if it fails."""

    def __init__(self, path: str = LIBRARY) -> None:
        try:
            self._library = ctypes.CDLL(path)
        except OSError as error:
            raise UsageError(
                f"CUDA finds no driver: {path} cannot be loaded",
                help="install the driver of NVIDIA; compiling for --target sm_90 and the like "
                "needs none",
            ) from error
        self._texts = {name: self._declared(name, (c_int, c_void_p)) for name in _TEXTS}
        self._version = self._declared("cuDriverGetVersion", (c_void_p,))
        self._check_version()
        self.functions = {
            name: self._declared(name, parameters)
            for name, parameters in _PARAMETERS.items()
            if name not in _OPTIONAL or hasattr(self._library, name)
        }
        self.call("cuInit", 0)

    @property
    def version(self) -> int:
        """The version of CUDA that the driver has: 12080 is 12.8."""
        found = c_int()
        self._version(byref(found))
        return found.value

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function."""
        status = self.functions[name](*arguments)
        if status:
            raise self.error(name, status)

    def made(self, name: str, *arguments: Any) -> int:
        """The number that a function stores at its first parameter."""
        found = c_uint64()
        self.call(name, byref(found), *arguments)
        return found.value

    def error(self, call: str, status: int) -> CudaError:
        """What the driver says of a status that is not success."""
        name, text = (self._text(kind, status) for kind in _TEXTS)
        return CudaError(call, name or f"error {status}", status, text)

    def _text(self, kind: str, status: int) -> str:
        found = c_char_p()
        self._texts[kind](status, byref(found))
        return (found.value or b"").decode()

    def _check_version(self) -> None:
        version = self.version
        if version < LEAST_VERSION:
            raise UsageError(
                f"the driver is too old: it has CUDA {spelled(version)}, and "
                f"{spelled(LEAST_VERSION)} is needed",
                help=UPDATE,
            )

    def _declared(self, name: str, parameters: Sequence[Any]) -> Callable[..., int]:
        try:
            function: Any = getattr(self._library, name)
        except AttributeError:
            raise UsageError(f"the driver is too old: it has no {name}", help=UPDATE) from None
        function.argtypes, function.restype = parameters, c_int
        return function  # type: ignore[no-any-return]  # what ctypes makes has no type


def spelled(version: int) -> str:
    """A version of CUDA as people write it."""
    return f"{version // 1000}.{version % 1000 // 10}"
