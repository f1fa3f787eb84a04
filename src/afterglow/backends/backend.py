"""What a backend is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from afterglow.backends.policy import DEFAULT, Policy
from afterglow.graph import Op
from afterglow.instr import KernelPlan, OpInstr, Program, Stack
from afterglow.passes import Pass
from afterglow.runtime.executable import Executable


@dataclass(frozen=True)
class Settings:
    """What a backend may be told: the machine to make code for, and how many threads run it."""

    target: str = "host"
    threads: int | None = None
    """As many as this process may keep busy, if it is not said."""
    verify: bool = False
    """Whether every instruction is compared with what its ops mean, while it runs."""
    perf_map: bool = False
    """Whether the profiler `perf` is told the names of functions."""
    compiled: Callable[..., bytes] | None = None
    """From a module of machine code and its target to an object file, if something remembers."""
    policy: Policy = DEFAULT
    """What the choice of algorithms heeds."""


class Backend(Protocol):
    """Code generation for one kind of machine."""

    name: str
    preparation: tuple[Pass, ...]
    """What is done to a model before anything else, because this backend computes so."""

    def keeps(self, op: Op) -> bool:
        """Whether it computes this op itself; all others are lowered."""

    def runs(self, op: Op) -> bool:
        """Whether it can run what it does not keep and what does not decompose."""

    def plan(self, step: OpInstr | Stack, *, exact: bool = False) -> KernelPlan | None:
        """How it computes a step; None if it has no kernel for it, or for all of a stack at once.

        `exact` forbids algorithms that form sums in other ways than defined.
        """

    def plans(self, step: OpInstr | Stack, *, exact: bool = False) -> Sequence[KernelPlan]:
        """All plans for a step that the policy admits, the best first."""

    def compile(self, program: Program) -> Executable:
        """Make a planned program run."""
