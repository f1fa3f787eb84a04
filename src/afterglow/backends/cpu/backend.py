"""The CPU as a backend."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.backends.backend import Settings
from afterglow.backends.cpu.build import build
from afterglow.backends.cpu.codegen import host_steps
from afterglow.backends.cpu.compile import Compile, compile_module
from afterglow.backends.cpu.listing import assembly_text, llvm_text
from afterglow.backends.cpu.planner import Planner
from afterglow.backends.cpu.target import Target
from afterglow.backends.cpu.verify import VerifyingExecutable
from afterglow.backends.cpu.write import is_left_to_host, keeps
from afterglow.backends.policy import DEFAULT, Policy
from afterglow.graph import Op
from afterglow.instr import Instr, KernelPlan, OpInstr, Program, Stack
from afterglow.passes import Pass
from afterglow.runtime.executable import Executable
from afterglow.runtime.native.executable import NativeExecutable
from afterglow.transforms.widen_floats import WidenFloats


class Cpu:
    """Machine code for a target, run in this process by so many threads.

    An op without a kernel is lowered; what cannot be lowered either, such as texts, runs on the
    host between stretches of machine code, by the op's own definition.
    """

    name = "cpu"
    preparation: tuple[Pass, ...] = (WidenFloats(),)

    def __init__(
        self,
        target: Target | None = None,
        threads: int | None = None,
        *,
        verify: bool = False,
        perf_map: bool = False,
        compiled: Compile = compile_module,
        policy: Policy = DEFAULT,
    ) -> None:
        self.target = target or Target.host()
        self.threads = threads
        self.verify = verify
        self.perf_map = perf_map
        self.compiled = compiled
        self.policy = policy
        self._planner = Planner(self.target, policy)

    @staticmethod
    def of(settings: Settings) -> Cpu:
        """The backend as it was asked for."""
        return Cpu(
            Target.of(settings.target),
            settings.threads,
            verify=settings.verify,
            perf_map=settings.perf_map,
            compiled=settings.compiled or compile_module,
            policy=settings.policy,
        )

    def keeps(self, op: Op) -> bool:
        """What the kernel table holds, and what the host computes better whole."""
        return keeps(op) or is_left_to_host(op)

    def runs(self, op: Op) -> bool:
        """Everything: the host runs what has no kernel."""
        return True

    def host_steps(self, program: Program) -> list[tuple[Instr, str]]:
        """The instructions of a program that run on the host, and why."""
        return host_steps(program)

    def listing(self, program: Program, language: str) -> str:
        """The code of a planned program, in LLVM's language ("llvm") or in assembly ("asm")."""
        text = assembly_text if language == "asm" else llvm_text
        return text(program, self.target)

    def plan(self, step: OpInstr | Stack, *, exact: bool = False) -> KernelPlan | None:
        """The kernel that is picked for a step, or estimated to be the fastest."""
        return self._planner.plan(step, exact=exact)

    def plans(self, step: OpInstr | Stack, *, exact: bool = False) -> Sequence[KernelPlan]:
        """The plans that the policy admits: only the picked one, where one is picked."""
        return self._planner.admitted(step, exact=exact)

    def compile(self, program: Program) -> Executable:
        """Compile and load a planned program."""
        artefact = build(
            program,
            self.target,
            self.compiled,
            apart=self.verify,
            unchecked=self.policy.unchecked,
        )
        if self.verify:
            return VerifyingExecutable(
                artefact,
                program,
                self.threads,
                perf_map=self.perf_map,
                unchecked=self.policy.unchecked,
            )
        return NativeExecutable(artefact, self.threads, perf_map=self.perf_map)
