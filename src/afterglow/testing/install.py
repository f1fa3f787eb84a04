"""Backends that no package brings: they are known to this process only."""

from __future__ import annotations

from afterglow.backends.backend import BackendFactory
from afterglow.runtime.device import Device
from afterglow.support.plugins import BACKENDS, DEVICES, add_plugin


def install(factory: BackendFactory, device: Device | None = None) -> None:
    """Add a backend, and the device that runs its code, for as long as this process lasts.

    A package does the same for good, through the entry points `afterglow.backends` and
    `afterglow.devices`.
    """
    add_plugin(BACKENDS, factory)
    if device is not None:
        add_plugin(DEVICES, device)
