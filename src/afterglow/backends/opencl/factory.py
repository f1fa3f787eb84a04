"""What makes the OpenCL backend; its kernels are imported when one is made."""

from __future__ import annotations

from afterglow.backends.backend import Backend, Settings, TargetInfo
from afterglow.backends.opencl.driver import DEVICE, devices
from afterglow.backends.opencl.limits import Limits
from afterglow.support.errors import UsageError


class OpenClFactory:
    """Makes the OpenCL backend for a device of this machine."""

    name = DEVICE
    device = DEVICE

    def __call__(self, settings: Settings) -> Backend:
        """The backend for `opencl`, the first device, or `opencl:platform/device`."""
        # here, because every compilation imports this module, and few are for OpenCL
        from afterglow.backends.opencl.backend import OpenCl  # noqa: PLC0415

        return OpenCl(settings)

    def targets(self) -> list[TargetInfo]:
        """Every device of every driver; what is missing, if there is none."""
        try:
            return [_info(limits) for _, limits in devices()]
        except UsageError as error:
            return [TargetInfo(self.name, f"not here: {error.what}; {error.help}")]


def _info(limits: Limits) -> TargetInfo:
    features = [name for name in ("double", "half") if getattr(limits, name)]
    units = "1 unit" if limits.units == 1 else f"{limits.units} units"
    summary = f"{limits.platform}, {limits.device}, {units}"
    return TargetInfo(limits.name, summary, " ".join(features), limits.to_json())


OPENCL = OpenClFactory()
