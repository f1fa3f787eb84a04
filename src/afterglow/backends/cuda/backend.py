"""CUDA as a backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from afterglow.backends.backend import Settings
from afterglow.backends.capabilities import (
    BundleEntry,
    BundleExtent,
    Choice,
    PlanProgram,
    ProgramProfile,
    WritableBundle,
)
from afterglow.backends.cuda.bundle import bundle_for_cuda
from afterglow.backends.cuda.codegen import generate, source_of, to_artifact
from afterglow.backends.cuda.compile import Compiled, compile_kernels
from afterglow.backends.cuda.device import CudaDevice
from afterglow.backends.cuda.emulator.code import emulated_kernels
from afterglow.backends.cuda.executable import CudaExecutable
from afterglow.backends.cuda.here import find_target
from afterglow.backends.cuda.kernels.kernel import KernelSource
from afterglow.backends.cuda.memory import CudaBuffer
from afterglow.backends.cuda.planner import plans, refusal
from afterglow.backends.cuda.target import DEVICE
from afterglow.backends.cuda.tuning import choices_of, measure
from afterglow.backends.job import Job
from afterglow.backends.launched.generated import runs_on_host
from afterglow.backends.launched.profile import profile
from afterglow.backends.launched.verify import VerifyingExecutable
from afterglow.backends.policy import DEFAULT
from afterglow.instr import Instr, KernelPlan, OpInstr, Program, Stack
from afterglow.ops.control import Scan
from afterglow.passes import Pass
from afterglow.runtime.artifact import Artifact
from afterglow.runtime.buffers import HostBuffer
from afterglow.runtime.bundle import BundleRequest
from afterglow.runtime.device import LoadOptions
from afterglow.types import Array

LANGUAGE = "triton"


class Cuda:
    """Kernels in Triton's language for one kind of GPU, compiled ahead of time.

    An op without a kernel is lowered; what cannot be lowered either runs on the host between
    kernels, by the op's own definition.
    """

    name = DEVICE
    device = DEVICE
    preparation: tuple[Pass, ...] = ()
    languages = (LANGUAGE,)
    exact_extents = True

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.target = find_target(settings.target)
        self._known: dict[str, Sequence[KernelPlan]] = {}
        """Plans by the keys of jobs: stacks are tried in many ways, and layers are alike."""

    def plans(self, step: OpInstr | Stack, *, exact: bool = False) -> Sequence[KernelPlan]:
        """The kernels of a step, the best by its estimate first; all form sums as defined."""
        if isinstance(step, OpInstr) and isinstance(step.op, Scan):
            return plans(step, self.target, self.settings.policy)  # decided by those of its body
        key = f"{type(step).__name__} {Job.of(step).key}"
        if key not in self._known:
            self._known[key] = plans(step, self.target, self.settings.policy)
        return self._known[key]

    def compile(self, program: Program) -> Artifact:
        """Kernels as machine code, and the order in which they are launched."""
        generated = generate(program, self.target)
        compiled = self._compiled([*generated.kernels.values()])
        unchecked = self.settings.policy.unchecked
        return to_artifact(generated, compiled, self.target, unchecked=unchecked)

    def listing(self, program: Program, language: str) -> str:
        """The kernels of a planned program."""
        return source_of(generate(program, self.target))

    def host_steps(self, program: Program) -> list[tuple[Instr, str]]:
        """The instructions of a program that run on the host, and why."""
        return [(step, self._reason(step)) for step in program.body if runs_on_host(step)]

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
        return profile(self._loaded(program), program, inputs, states, repeat, CudaBuffer)

    def choices(self, program: Program) -> list[Choice]:
        """Every kernel of a program that has several plans, with those."""
        return choices_of(program, lambda step: plans(step, self.target, DEFAULT))

    def measure(
        self,
        plan: PlanProgram,
        choices: Sequence[Choice],
        options: LoadOptions,
        seconds: float,
    ) -> None:
        """Run the plans of all choices on the GPU, those that compute what the first one does."""
        settings = self.settings
        measure(plan, choices, settings.policy, self.target, settings.kernels, seconds)

    def bundle(
        self,
        name: str,
        entries: Sequence[BundleEntry],
        extents: Sequence[BundleExtent],
        request: BundleRequest,
    ) -> WritableBundle:
        """A program as machine code and constants, with a launcher in C."""
        return bundle_for_cuda(name, entries, request, self.compile, self.host_steps)

    def _compiled(self, sources: Sequence[KernelSource]) -> Mapping[str, Compiled]:
        """Machine code; for the interpreter, the texts themselves."""
        if self.target.is_emulated:
            return emulated_kernels(sources)
        return compile_kernels(sources, self.target, self.settings.kernels)

    def _loaded(self, program: Program) -> CudaExecutable:
        return CudaDevice().load_here(self.compile(program))

    def _reason(self, step: Instr) -> str:
        if isinstance(step, (OpInstr, Stack)):
            return refusal(Job.of(step), self.target)
        return "it moves strings"
