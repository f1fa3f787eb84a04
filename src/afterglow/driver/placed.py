"""The options that say where a model runs: on one backend, or on several devices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from afterglow.driver.devices import describe_devices
from afterglow.runtime.logical_device import HOST_TARGET, Devices, LogicalDevice, logical_devices
from afterglow.support.errors import UsageError

if TYPE_CHECKING:  # what partitions is imported with the compiler
    from afterglow.partition.config import PartitionConfig

INTERPRETER = "interpreter"
"""The kind of device that checks others, and is never the fastest."""
AUTO = "auto"
"""Stands for all devices of this machine."""


def placed_on(
    backend: Any, target: str, threads: int | None, partition: PartitionConfig | None
) -> dict[str, Any]:
    """The options of a compilation that say where a model runs, by what a user said."""
    several = backend == AUTO or not isinstance(backend, str)
    if not several:
        if partition is not None:
            raise UsageError(
                f"a model on {backend!r} alone is not partitioned",
                help='give several devices: backend=["opencl", "cpu"], or leave partition out',
            )
        return {"backend": backend, "target": target, "threads": threads}
    if target != HOST_TARGET:
        raise UsageError(
            f"target {target!r} cannot be that of several devices",
            help='name it with its device: backend=["opencl:PLATFORM/DEVICE", "cpu"]',
        )
    if partition is not None and not hasattr(partition, "is_data"):  # its class is not imported
        raise UsageError(
            f"partition must be a PartitionConfig, got {partition!r}",
            help='write partition=PartitionConfig(objective="throughput")',
        )
    devices = found_devices() if backend == AUTO else logical_devices(_listed(backend))
    if len(devices) == 1 and devices[0].is_plain and partition is None:
        return {"backend": devices[0].backend, "target": devices[0].target, "threads": threads}
    return {"threads": threads, "devices": devices, "placing": partition}


def _listed(backend: Any) -> Devices:
    if isinstance(backend, (LogicalDevice, Iterable)):
        return backend
    raise UsageError(
        f"backend must be a name or a list of devices, got {backend!r}", help="write backend='cpu'"
    )


def found_devices() -> tuple[LogicalDevice, ...]:
    """All devices of this machine, but those that are simulated or check others."""
    found, _ = describe_devices()
    return tuple(
        LogicalDevice(info.name, info.backend or info.name, info.target)
        for info in found
        if not info.is_simulated and info.kind != INTERPRETER
    )
