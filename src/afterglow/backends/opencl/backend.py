"""OpenCL as a backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from afterglow.backends.backend import Settings
from afterglow.backends.capabilities import ProgramProfile
from afterglow.backends.job import Job
from afterglow.backends.launched.generated import runs_on_host
from afterglow.backends.launched.profile import profile
from afterglow.backends.launched.verify import VerifyingExecutable
from afterglow.backends.opencl.build import compile_kernels
from afterglow.backends.opencl.codegen import (
    BINARY,
    SOURCE,
    generate,
    source_of,
    to_artifact,
)
from afterglow.backends.opencl.driver import DEVICE
from afterglow.backends.opencl.executable import OpenClExecutable
from afterglow.backends.opencl.limits import Limits
from afterglow.backends.opencl.memory import OpenClBuffer
from afterglow.backends.opencl.planner import plans, refusal
from afterglow.backends.opencl.session import session
from afterglow.backends.opencl.target import OpenClTarget
from afterglow.instr import Instr, KernelPlan, OpInstr, Program, Stack
from afterglow.passes import Pass
from afterglow.runtime.artifact import Artifact
from afterglow.runtime.buffers import HostBuffer
from afterglow.runtime.device import LoadOptions
from afterglow.transforms.widen_floats import WidenFloats
from afterglow.types import Array

LANGUAGE = "opencl"


class OpenCl:
    """Kernels in OpenCL C for one device.

    An op without a kernel is lowered; what cannot be lowered either runs on the host between
    kernels, by the op's own definition.
    """

    name = DEVICE
    device = DEVICE
    preparation: tuple[Pass, ...] = (WidenFloats(),)
    languages = (LANGUAGE,)
    exact_extents = True

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.target = OpenClTarget.of(settings.target)

    def plans(self, step: OpInstr | Stack, *, exact: bool = False) -> Sequence[KernelPlan]:
        """The kernel of a step; every one forms sums as they are defined."""
        return plans(step, self.target.limits)

    def compile(self, program: Program) -> Artifact:
        """Kernels, as text and, unless the driver keeps that, as the driver compiled them."""
        limits = self.target.limits
        generated = generate(program, limits)
        made = to_artifact(generated, limits, unchecked=self.settings.policy.unchecked)
        if not generated.kernels or limits.keeps_programs:
            return made
        source = bytes(made.sections[SOURCE]).decode()
        binary = compile_kernels(source, session(limits.name), self.settings.kernels)
        return replace(made, sections={**made.sections, BINARY: binary})

    def listing(self, program: Program, language: str) -> str:
        """The kernels of a planned program."""
        limits = self.target.limits
        return source_of(generate(program, limits), limits)

    def host_steps(self, program: Program) -> list[tuple[Instr, str]]:
        """The instructions of a program that run on the host, and why."""
        limits = self.target.limits
        return [(step, _reason(step, limits)) for step in program.body if runs_on_host(step)]

    def verifying(self, program: Program, options: LoadOptions) -> VerifyingExecutable:
        """Kernels each of which is compared with its definition as it runs."""
        unchecked = self.settings.policy.unchecked
        return VerifyingExecutable(self._loaded(program), program, unchecked=unchecked)

    def profile(
        self,
        program: Program,
        inputs: Sequence[Array],
        states: Mapping[str, HostBuffer],
        options: LoadOptions,
        repeat: int,
    ) -> ProgramProfile:
        """Time each kernel by itself, as the device counts."""
        return profile(self._loaded(program), program, inputs, states, repeat, OpenClBuffer)

    def _loaded(self, program: Program) -> OpenClExecutable:
        return OpenClExecutable(self.compile(program), self.target.limits)


def _reason(step: Instr, limits: Limits) -> str:
    if isinstance(step, (OpInstr, Stack)):
        return refusal(Job.of(step), limits)
    return "it moves strings"
