"""The interpreter as a backend, in two kinds."""

from __future__ import annotations

from afterglow.backends.backend import Settings
from afterglow.backends.interpreter.machine import Machine
from afterglow.graph import Border, Op
from afterglow.instr import KernelPlan, OpInstr, Program, Stack
from afterglow.memory import by_definition
from afterglow.passes import Pass


class Interpreter:
    """Runs every op by its definition: the oracle for all other backends.

    With `primitives_only` it keeps nothing that decomposes, as hardware would that has only the
    primitives, and a host for ops on strings, trees and tables: what runs on it runs on anything.
    """

    preparation: tuple[Pass, ...] = ()

    def __init__(self, name: str, *, primitives_only: bool, unchecked: bool = False) -> None:
        self.name = name
        self.primitives_only = primitives_only
        self.unchecked = unchecked

    def of(self, settings: Settings) -> Interpreter:
        """The same backend as it was asked for."""
        unchecked = settings.policy.unchecked
        return Interpreter(self.name, primitives_only=self.primitives_only, unchecked=unchecked)

    def keeps(self, op: Op) -> bool:
        """Everything, or the primitives and the host ops."""
        return not self.primitives_only or op.is_primitive() or op.host

    def runs(self, op: Op) -> bool:
        """What it keeps, and nothing else."""
        return self.keeps(op)

    def border(self, step: OpInstr) -> Border | None:
        """None: the definition of an op pads for itself."""
        return None

    def plan(self, step: OpInstr | Stack, *, exact: bool = False) -> KernelPlan:
        """By definition: the ops of a stack run one after the other, tile by tile."""
        return by_definition(step, exact=exact)

    def compile(self, program: Program) -> Machine:
        """A machine for the program."""
        return Machine(program, unchecked=self.unchecked)


INTERPRETER = Interpreter("interpreter", primitives_only=False)
PRIMITIVES = Interpreter("primitives", primitives_only=True)
