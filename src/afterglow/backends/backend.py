"""The contract of a backend: what a code generator for a new kind of device implements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from afterglow.backends.policy import DEFAULT, Policy
from afterglow.instr import KernelPlan, OpInstr, Program, Stack
from afterglow.memory import MemorySpace
from afterglow.passes import Pass
from afterglow.runtime.artifact import Artifact
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import DType


class Target(Protocol):
    """A machine that a backend makes code for: `str` is what a user writes to name it."""

    @property
    def memories(self) -> tuple[MemorySpace, ...]:
        """Its memories: the main one, then those that data are copied to in order to be used."""

    def missing_here(self) -> Sequence[str]:
        """What code for it needs that this machine lacks; nothing if the code runs here."""

    def reads(self, storage: DType) -> bool:
        """Whether weights stored in a narrower element type are read at full speed."""


@dataclass(frozen=True)
class TargetInfo:
    """What can be said of a target by its name."""

    name: str
    summary: str
    features: str = ""
    """The names of what its instruction set has, if there is such a thing."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """The same and more, as JSON can hold it."""


class KernelCache(Protocol):
    """Remembers compiled kernels by keys that say all that they depend on."""

    def get(self, key: str) -> bytes | None:
        """What was stored under a key, if it is there still."""

    def put(self, key: str, data: bytes) -> None:
        """Store something under a key."""


@dataclass(frozen=True)
class Settings:
    """What a backend is told by whoever compiles a model."""

    target: str = "host"
    policy: Policy = DEFAULT
    """User constraints on the choice of algorithms."""
    threads: int | None = None
    """Threads of the host that will run the code; as many as may be if None."""
    kernels: KernelCache | None = None
    """Where compiled kernels are remembered, if anywhere."""


class Backend(Protocol):
    """Code generation for one target, within settings.

    More that a backend may be able to do is in `backends.capabilities`.
    """

    @property
    def name(self) -> str:
        """What users call it."""

    @property
    def device(self) -> str:
        """The name of the device that runs what it compiles."""

    @property
    def preparation(self) -> Sequence[Pass]:
        """Passes over a graph before anything else, because this backend computes so."""

    @property
    def target(self) -> Target:
        """The machine that code is made for."""

    def plans(self, step: OpInstr | Stack, *, exact: bool = False) -> Sequence[KernelPlan]:
        """The kernels that compute a step, the best by its estimate first.

        None, and an op is lowered to simpler ones, and a stack is not formed. `exact` forbids
        algorithms that form sums in other ways than defined.
        """

    def compile(self, program: Program) -> Artifact:
        """Generate the code of a planned program."""


class BackendFactory(Protocol):
    """Makes a backend: what a name stands for, in this package or as an entry point of another."""

    @property
    def name(self) -> str:
        """What users call the backend."""

    @property
    def device(self) -> str:
        """The name of the device that runs what the backend compiles."""

    def __call__(self, settings: Settings) -> Backend:
        """The backend for the target that the settings name, or an error that lists targets."""

    def targets(self) -> Sequence[TargetInfo]:
        """The targets that have a name, the default first."""
