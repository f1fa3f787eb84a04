"""The interpreter as a backend, in two kinds."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.backends.backend import Settings, TargetInfo
from afterglow.backends.interpreter.device import DEVICE, to_artifact
from afterglow.backends.interpreter.target import InterpreterTarget
from afterglow.graph.dims import dims_of_op
from afterglow.instr import KernelPlan, OpInstr, Program, Stack
from afterglow.memory import by_definition
from afterglow.ops.extents import Extents
from afterglow.passes import Pass
from afterglow.runtime.artifact import Artifact
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import string


@dataclass(frozen=True)
class Interpreter:
    """Runs every op by its definition: the oracle for all other backends.

    With `primitives_only` it has no kernel for anything that decomposes, as hardware would that
    has only the primitives, and a host for ops on strings, trees and tables: what runs on it runs
    on anything.
    """

    name: str
    primitives_only: bool
    settings: Settings
    device: str = DEVICE
    preparation: tuple[Pass, ...] = ()

    @property
    def target(self) -> InterpreterTarget:
        """What the settings name."""
        return InterpreterTarget.of(self.settings.target)

    def plans(self, step: OpInstr | Stack, *, exact: bool = False) -> Sequence[KernelPlan]:
        """By definition: the ops of a stack run one after the other, tile by tile."""
        if self.primitives_only and isinstance(step, OpInstr) and not _is_in_contract(step):
            return ()
        return (by_definition(step, exact=exact),)

    def compile(self, program: Program) -> Artifact:
        """The program itself."""
        return to_artifact(program, program.planned, unchecked=self.settings.policy.unchecked)


def _is_in_contract(step: OpInstr) -> bool:
    """Whether hardware must have a kernel for a step, or its host runs it, as it does strings.

    Extents that are known when a program runs are numbers of it: nothing simpler computes them.
    """
    if dims_of_op(step.op) and isinstance(step.op, Extents):
        return True
    buffers = (*step.outs, *(b for b in step.ins if b is not None))
    return not step.op.decomposes() or any(b.type.dtype is string for b in buffers)


@dataclass(frozen=True)
class InterpreterFactory:
    """Makes one kind of interpreter."""

    name: str
    primitives_only: bool
    device: str = DEVICE

    def __call__(self, settings: Settings) -> Interpreter:
        """The interpreter, within settings."""
        made = Interpreter(self.name, self.primitives_only, settings)
        InterpreterTarget.of(settings.target)  # refuse a wrong one now
        return made

    def targets(self) -> list[TargetInfo]:
        """Wherever NumPy runs."""
        return [
            TargetInfo("host", "NumPy, by the definitions of ops"),
            TargetInfo("local=64KiB", "the same with a second memory, that data are copied to"),
        ]


INTERPRETER = InterpreterFactory("interpreter", primitives_only=False)
PRIMITIVES = InterpreterFactory("primitives", primitives_only=True)
