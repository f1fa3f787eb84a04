"""What makes the CUDA backend; its kernels are imported when one is made."""

from __future__ import annotations

from afterglow.backends.backend import Backend, Settings, TargetInfo
from afterglow.backends.cuda.here import targets_here
from afterglow.backends.cuda.target import DEVICE, KINDS, CudaTarget
from afterglow.support.errors import AfterglowError


class CudaFactory:
    """Makes the CUDA backend for a GPU of this machine, or for a kind of GPU."""

    name = DEVICE
    device = DEVICE

    def __call__(self, settings: Settings) -> Backend:
        """The backend for `host`, the first GPU here, or for a kind such as `sm_90`."""
        # here, because every compilation imports this module, and few are for CUDA
        from afterglow.backends.cuda.backend import Cuda  # noqa: PLC0415

        return Cuda(settings)

    def targets(self) -> list[TargetInfo]:
        """The GPUs of this machine, then all kinds that code can be compiled for."""
        try:
            here = [_info(target) for target in targets_here()]
        except AfterglowError as error:
            here = [TargetInfo("host", f"not here: {error.what}; {error.help}")]
        return [*here, *map(_info, KINDS.values())]


def _info(target: CudaTarget) -> TargetInfo:
    if target.is_emulated:
        summary = "kernels run on the processor by Triton's interpreter, to test and debug"
    else:
        model = f"{target.model}, " if target.model else ""
        version = f"{target.arch // 10}.{target.arch % 10}"
        summary = f"{model}compute capability {version}, {target.units} multiprocessors"
    return TargetInfo(target.name, summary, "", target.to_json())


CUDA = CudaFactory()
