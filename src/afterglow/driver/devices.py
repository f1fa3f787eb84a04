"""The devices of this machine, by name: those that Afterglow brings, and those of plug-ins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from afterglow.runtime.artifact import Section
from afterglow.runtime.device import Device, DeviceInfo, SeveralDevices
from afterglow.runtime.native.device import CpuDevice
from afterglow.runtime.native.program import HostProgram
from afterglow.runtime.partitioned.graph import DEVICE as PARTITIONED
from afterglow.support.errors import AfterglowError, DeviceError, UsageError
from afterglow.support.plugins import DEVICES, load_plugin, plugin_failures, plugin_names
from afterglow.types import Array

_NEEDS = ("name", "describe", "identity", "load", "allocate")
"""The attributes of a `Device`."""
_OF_BACKENDS = {
    "cpu": "cpu",
    "interpreter": "interpreter",
    "primitives": "interpreter",
    "opencl": "opencl",
    "cuda": "cuda",
}
"""The devices of our own backends, known here so that cached models are found without those."""
OPTIONAL = ("opencl", "cuda")
"""Our own devices that need more than Afterglow brings."""


def is_own_backend(backend: str) -> bool:
    """Whether Afterglow itself brings a backend."""
    return backend in _OF_BACKENDS


def device_of(backend: str) -> str:
    """The name of the device that runs what a backend compiles."""
    if is_own_backend(backend):
        return _OF_BACKENDS[backend]
    # here, because it imports the compiler
    from afterglow.backends.registry import backend_factory  # noqa: PLC0415

    return backend_factory(backend).device


def describe_devices() -> tuple[list[DeviceInfo], dict[str, AfterglowError]]:
    """What all devices say of themselves, and by name why others cannot be used."""
    found: list[DeviceInfo] = []
    missing: dict[str, AfterglowError] = {}
    for name in device_names():
        try:
            found += infos_of(name)
        except AfterglowError as error:
            missing[name] = error
    return found, missing


def infos_of(name: str) -> Sequence[DeviceInfo]:
    """What a device says of itself, or of each that it stands for."""
    device = find_device(name)
    with device_failures(name):
        return device.describe_each() if isinstance(device, SeveralDevices) else [device.describe()]


def device_failures(name: str) -> AbstractContextManager[None]:
    """Turns what the code of a device raises into a `DeviceError`, unless it is our own."""
    is_own = name in (*_OF_BACKENDS.values(), PARTITIONED)
    return nullcontext() if is_own else plugin_failures(f"device {name!r}", DeviceError)


def device_names() -> list[str]:
    """The names of all devices."""
    return [*dict.fromkeys(_OF_BACKENDS.values()), *plugin_names(DEVICES)]


def find_device(name: str) -> Device:
    """The device of a name; the interpreter and plug-ins are imported when they are asked for."""
    found: Device | None = _own_device(name) or load_plugin(DEVICES, name, _NEEDS)
    if found is None:
        raise UsageError(
            f"there is no device {name!r}",
            help=f"there are {', '.join(device_names())}; install the package that brings it",
        )
    return found


@cache
def _own_device(name: str) -> Device | None:
    if name == "cpu":
        return CpuDevice(_restore_host)
    if name == "interpreter":
        # here, because it imports the catalogue of ops, which few saved models need
        from afterglow.backends.interpreter.device import InterpreterDevice  # noqa: PLC0415

        return InterpreterDevice()
    if name == "opencl":
        # here, because it imports the catalogue of ops
        from afterglow.backends.opencl.device import OpenClDevice  # noqa: PLC0415

        return OpenClDevice()
    if name == "cuda":
        # here, because it imports the catalogue of ops
        from afterglow.backends.cuda.device import CudaDevice  # noqa: PLC0415

        return CudaDevice()
    if name == PARTITIONED:
        # here, because it imports futures and threads
        from afterglow.runtime.partitioned.executable import PartitionedDevice  # noqa: PLC0415

        return PartitionedDevice(find_device)
    return None


def _restore_host(
    manifest: Mapping[str, Any], sections: Mapping[str, Section], constants: Array
) -> HostProgram:
    # here, because it imports the catalogue of ops, which few saved models need
    from afterglow.backends.interpreter.hosted import restore_hosted  # noqa: PLC0415

    return restore_hosted(manifest, sections, constants)
