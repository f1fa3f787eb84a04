"""The OpenCL devices of this machine, as the device that loads what the backend compiles."""

from __future__ import annotations

from dataclasses import replace

from afterglow.backends.opencl.driver import DEVICE, devices
from afterglow.backends.opencl.executable import OpenClExecutable
from afterglow.backends.opencl.limits import Limits
from afterglow.backends.opencl.memory import OpenClBuffer
from afterglow.backends.opencl.session import session
from afterglow.backends.opencl.workspace import buffer_for
from afterglow.runtime.artifact import Artifact
from afterglow.runtime.device import DeviceBuffer, DeviceInfo, LoadOptions
from afterglow.support.errors import UsageError
from afterglow.types import TensorType

OF_UNIT = 16e9
"""Floating-point operations a second of one lane of one compute unit, about."""
BANDWIDTH = 20e9
"""Bytes a second of a device's memory, as long as nobody measured it."""


class OpenClDevice:
    """Runs programs on the device that each was compiled for; buffers go where they are used."""

    name = DEVICE

    def describe(self) -> DeviceInfo:
        """The first device, with usual rates."""
        return replace(self.describe_each()[0], name=self.name)

    def describe_each(self) -> list[DeviceInfo]:
        """Every device of every driver, by its target."""
        return [_info(limits) for _, limits in devices()]

    def identity(self) -> str:
        """All devices and their drivers: what is compiled for one of them depends on no other."""
        return ", ".join(limits.identity for _, limits in devices())

    def load(self, artifact: Artifact, options: LoadOptions | None = None) -> OpenClExecutable:
        """Give the kernels to the driver, and the constants to the device."""
        name = Limits.of_json(artifact.manifest["device"]).name
        here = [limits for _, limits in devices()]
        found = next((limits for limits in here if limits.name == name), None)
        if found is None:
            raise UsageError(
                f"the model was compiled for {name}, which is not here",
                help=f"compile it for one of {', '.join(limits.name for limits in here)}",
            )
        return OpenClExecutable(artifact, found)

    def allocate(self, type: TensorType) -> DeviceBuffer:
        """A buffer of zeros."""
        return buffer_for(type)

    def allocate_on(self, target: str, type: TensorType) -> DeviceBuffer:
        """A buffer of zeros in the memory of the device of a target."""
        buffer = buffer_for(type)
        if isinstance(buffer, OpenClBuffer):
            buffer.on(session(target))
        return buffer


def _info(limits: Limits) -> DeviceInfo:
    return DeviceInfo(
        limits.name,
        f"{limits.device} ({limits.platform})",
        limits.memory_bytes,
        BANDWIDTH,
        limits.units * limits.lanes * OF_UNIT,
        BANDWIDTH,
        kind=limits.kind,
        target=limits.name,
        driver=limits.version,
        backend=DEVICE,
    )
