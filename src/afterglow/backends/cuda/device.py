"""The GPUs of this machine, as the device that loads what the backend compiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from afterglow.backends.cuda.absent import AbsentExecutable
from afterglow.backends.cuda.driver.cuda import cuda_driver
from afterglow.backends.cuda.driver.names import DEVICE, EMULATED
from afterglow.backends.cuda.driver.protocol import DeviceFacts, Driver
from afterglow.backends.cuda.executable import CudaExecutable
from afterglow.backends.cuda.memory import CudaBuffer, buffer_for
from afterglow.backends.cuda.session import devices, name_of, session
from afterglow.runtime.artifact import Artifact
from afterglow.runtime.device import DeviceBuffer, DeviceInfo, Executable, LoadOptions
from afterglow.support.errors import UsageError
from afterglow.types import TensorType

LANES = 128
"""Multiplications and additions of f32 that a multiprocessor begins in a cycle, about."""
BANDWIDTH = 1e12
"""Bytes a second of a GPU's memory, if its driver does not say."""
TRANSFER = 20e9
"""Bytes a second to the GPU and back, about: PCI Express 4 with sixteen lanes."""
LATENCY = 10e-6
"""Seconds that copying anything there or back takes at least, about."""
LAUNCH = 1.5e-6
"""Seconds between kernels of a graph, about."""


class CudaDevice:
    """Runs programs on the GPU that each was compiled for, or on the first that can run it."""

    name = DEVICE

    def describe(self) -> DeviceInfo:
        """The first GPU."""
        return replace(self.describe_each()[0], name=self.name)

    def describe_each(self) -> list[DeviceInfo]:
        """Every GPU, by its target."""
        return [_info(facts) for facts in devices()]

    def identity(self) -> str:
        """Nothing: what is compiled depends on its target alone, and needs no GPU."""
        return ""

    def load(self, artifact: Artifact, options: LoadOptions | None = None) -> Executable:
        """Give kernels and constants to the GPU of the artifact's target.

        A program for a kind of GPU that is not here is loaded, too: it can be saved for a machine
        that has one.
        """
        try:
            return self.load_here(artifact)
        except UsageError as error:
            if _names_a_gpu(artifact.manifest["target"]["name"]):
                raise
            return AbsentExecutable(artifact, error)

    def load_here(self, artifact: Artifact) -> CudaExecutable:
        """The same, or an error if no GPU here can run it."""
        name, arch = artifact.manifest["target"]["name"], artifact.manifest["arch"]
        driver = _driver_of(name)
        return CudaExecutable(artifact, driver, _fitting(name, arch, devices(driver)))

    def allocate(self, type: TensorType) -> DeviceBuffer:
        """A buffer of zeros."""
        return buffer_for(type)

    def allocate_on(self, target: str, type: TensorType) -> DeviceBuffer:
        """A buffer of zeros in the memory of the GPU of a target."""
        buffer = buffer_for(type)
        if isinstance(buffer, CudaBuffer):
            driver = _driver_of(target)
            buffer.on(session(_number_of(target), driver))
        return buffer


def _names_a_gpu(target: str) -> bool:
    """Whether a target is a GPU of one machine, rather than a kind of GPU."""
    return target == EMULATED or target.startswith(f"{DEVICE}:")


def _driver_of(target: str) -> Driver:
    if target != EMULATED:
        return cuda_driver()
    # here, because it imports Triton, which nothing but emulated programs needs to run
    from afterglow.backends.cuda.emulator.driver import emulated_driver  # noqa: PLC0415

    return emulated_driver()


def _number_of(target: str) -> int:
    """The number in the name of a GPU; the first if it is the name of a kind."""
    _, _, number = target.partition(":")
    return int(number) if number.isdecimal() else 0


def _fitting(name: str, arch: int, here: Sequence[DeviceFacts]) -> DeviceFacts:
    """The GPU that is named if it runs the code, or the first that does."""
    able = [facts for facts in here if runs_on(arch, facts.arch)]
    named = [facts for facts in able if name_of(facts) == name]
    if able:
        return (named or able)[0]
    listed = ", ".join(f"{facts.name} ({spelled(facts.arch)})" for facts in here)
    kinds = " or ".join(dict.fromkeys(f"sm_{facts.arch}" for facts in here))
    raise UsageError(
        f"the model was compiled for GPUs of compute capability {spelled(arch)}, which none "
        f"here is: {listed}",
        help=f"compile it for --target {kinds}, or for --target host on this machine",
    )


def runs_on(code: int, gpu: int) -> bool:
    """Whether machine code for a compute capability runs on a GPU: it is as new, of its family."""
    return code // 10 == gpu // 10 and code % 10 <= gpu % 10


def spelled(arch: int) -> str:
    """A compute capability as people write it."""
    return f"{arch // 10}.{arch % 10}"


def _info(facts: DeviceFacts) -> DeviceInfo:
    return DeviceInfo(
        name_of(facts),
        f"{facts.name}, compute capability {spelled(facts.arch)}",
        facts.memory_bytes,
        facts.bandwidth or BANDWIDTH,
        2.0 * LANES * facts.multiprocessors * facts.clock,
        TRANSFER,
        kind="gpu",
        target=name_of(facts),
        driver=f"CUDA {facts.driver}",
        backend=DEVICE,
        transfer_latency=LATENCY,
        launch_seconds=LAUNCH,
    )
