"""OpenCL as a backend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from afterglow.backends.backend import Settings, TargetInfo
from afterglow.backends.job import Job
from afterglow.backends.opencl.build import binary_of, build
from afterglow.backends.opencl.codegen import (
    BINARY,
    DEVICE,
    SOURCE,
    generate,
    runs_on_host,
    to_artifact,
)
from afterglow.backends.opencl.driver import devices
from afterglow.backends.opencl.limits import Limits
from afterglow.backends.opencl.planner import plans, refusal
from afterglow.backends.opencl.target import OpenClTarget
from afterglow.instr import Instr, KernelPlan, OpInstr, Program, Stack
from afterglow.passes import Pass
from afterglow.runtime.artifact import Artifact
from afterglow.support.errors import UsageError
from afterglow.transforms.widen_floats import WidenFloats

LANGUAGE = "opencl"


class OpenCl:
    """Kernels in OpenCL C for one device.

    An op without a kernel is lowered; what cannot be lowered either runs on the host between
    kernels, by the op's own definition.
    """

    name = "opencl"
    device = DEVICE
    preparation: tuple[Pass, ...] = (WidenFloats(),)
    languages = (LANGUAGE,)

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.target = OpenClTarget.of(settings.target)

    def plans(self, step: OpInstr | Stack, *, exact: bool = False) -> Sequence[KernelPlan]:
        """The kernel of a step; every one forms sums as they are defined."""
        return plans(step, self.target.limits)

    def compile(self, program: Program) -> Artifact:
        """Kernels, as text and as the driver compiled them."""
        generated = generate(program, self.target.limits)
        made = to_artifact(generated, unchecked=self.settings.policy.unchecked)
        if not generated.kernels:
            return made
        source = bytes(made.sections[SOURCE]).decode()
        binary = binary_of(build(source, self.target.limits))
        return replace(made, sections={**made.sections, BINARY: binary})

    def listing(self, program: Program, language: str) -> str:
        """The kernels of a planned program."""
        return generate(program, self.target.limits).source

    def host_steps(self, program: Program) -> list[tuple[Instr, str]]:
        """The instructions of a program that run on the host, and why."""
        limits = self.target.limits
        return [(step, _reason(step, limits)) for step in program.body if runs_on_host(step)]


def _reason(step: Instr, limits: Limits) -> str:
    if isinstance(step, (OpInstr, Stack)):
        return refusal(Job.of(step), limits)
    return "it moves strings"


class OpenClFactory:
    """Makes the OpenCL backend for a device of this machine."""

    name = OpenCl.name
    device = OpenCl.device

    def __call__(self, settings: Settings) -> OpenCl:
        """The backend for `opencl`, the first device, or `opencl:platform/device`."""
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
