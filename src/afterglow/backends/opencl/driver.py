"""The devices that OpenCL has on this machine, through pyopencl."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any

from afterglow.backends.opencl.limits import OLD_POCL, Limits
from afterglow.support.errors import UsageError

INSTALL = "pip install pyopencl and a driver; for CPUs, pip install pocl-binary-distribution"
NEWER = "install a newer driver; on Debian and Ubuntu, apt install pocl-opencl-icd"
DEVICE = "opencl"
"""The name of the backend, of its device, and of the first target."""
FIRST = ("host", DEVICE)
"""Targets that mean the first device."""


def library() -> Any:
    """The module `pyopencl`."""
    try:
        return import_module("pyopencl")
    except ImportError as error:
        raise UsageError("OpenCL needs pyopencl, which is not installed", help=INSTALL) from error


@cache
def devices() -> tuple[tuple[Any, Limits], ...]:
    """All devices of all drivers, with what each can do."""
    cl = library()
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:
        raise UsageError(f"OpenCL finds no driver: {error}", help=INSTALL) from error
    present = [device for platform in platforms for device in _devices_of(cl, platform)]
    if not present:
        raise UsageError("OpenCL finds no device", help=INSTALL)
    found = [device for device in present if _compiles(device)]
    if not found:
        version = " ".join(present[0].platform.version.partition(",")[0].split())
        raise UsageError(
            f"{version} does not know this processor, so it compiles nothing", help=NEWER
        )
    return tuple(zip(found, numbered([_limits(cl, device) for device in found]), strict=True))


def numbered(limits: Sequence[Limits]) -> list[Limits]:
    """Devices, those with the name of an earlier one with a number."""
    seen: Counter[str] = Counter()
    result = []
    for each in limits:
        seen[each.name] += 1
        result.append(replace(each, number=seen[each.name]))
    return result


def find(target: str) -> tuple[Any, Limits]:
    """The device that a target names: `opencl` for the first, or `opencl:platform/device`."""
    if target in FIRST:
        return devices()[0]
    prefix, _, rest = target.partition(":")
    platform, _, device = rest.partition("/")
    if prefix == DEVICE:
        fitting = [each for each in devices() if each[1].matches(platform, device)]
        named = [each for each in fitting if each[1].name == target]
        if fitting:
            return (named or fitting)[0]
    names = ", ".join(limits.name for _, limits in devices())
    raise UsageError(f"opencl has no target {target!r}", help=f"there are {names}")


def _devices_of(cl: Any, platform: Any) -> list[Any]:
    """The devices of a driver; one that has none, or fails, has none."""
    try:
        return [*platform.get_devices()]
    except cl.Error:
        return []


def _compiles(device: Any) -> bool:
    """Whether a driver's compiler knows the processor.

    PoCL calls an x86 processor `generic` that is newer than its LLVM, which then refuses the name.
    """
    return not re.search(r"PoCL HSTR: \S*x86_64\S*-generic$", device.version.strip())


def _limits(cl: Any, device: Any) -> Limits:
    extensions = device.extensions.split()
    exact = cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
    version = f"{device.platform.version} {device.driver_version}"
    widest = 8 if OLD_POCL in version else 16
    return Limits(
        platform=device.platform.name.strip(),
        device=device.name.strip(),
        vendor=device.platform.vendor.strip(),
        version=version,
        kind=_kind(cl, device.type),
        double="cl_khr_fp64" in extensions,
        half="cl_khr_fp16" in extensions,
        units=device.max_compute_units,
        work_group=device.max_work_group_size,
        local_bytes=device.local_mem_size,
        memory_bytes=device.global_mem_size,
        buffer_bytes=device.max_mem_alloc_size,
        lanes=max(1, min(device.native_vector_width_float, widest)),
        exact_division=bool(device.single_fp_config & exact),
        dot="cl_khr_integer_dot_product" in extensions,
    )


def _kind(cl: Any, kind: int) -> str:
    known = {"cpu": cl.device_type.CPU, "gpu": cl.device_type.GPU}
    return next((name for name, bit in known.items() if kind & bit), "accelerator")
