"""What some backends can do besides compiling: the driver asks for these, never for a name."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

from afterglow.backends.backend import Backend, Target
from afterglow.backends.policy import Policy
from afterglow.instr import Instr, KernelPlan, OpInstr, Program
from afterglow.runtime.buffers import HostBuffer
from afterglow.runtime.bundle import Bundle, BundleRequest
from afterglow.runtime.device import Executable, LoadOptions
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

LEAST_GAIN = 1.03
"""How much faster another plan must be than the estimated best: less may be noise."""

PlanProgram: TypeAlias = Callable[[Policy], Program]
"""Plans the program that is tuned, within a policy."""


@runtime_checkable
class Listing(Protocol):
    """Shows the code that it generates."""

    @property
    def languages(self) -> Sequence[str]:
        """The languages of listings, by the names of stages, such as "llvm" and "asm"."""

    def listing(self, program: Program, language: str) -> str:
        """The code of a planned program in one of the languages."""


@runtime_checkable
class Caching(Protocol):
    """Makes code for a machine that is faster where what it works on stays in a cache."""

    @property
    def cache_bytes(self) -> int:
        """Bytes of the last level of caches, for all cores together; 0 if there is none."""

    @property
    def cores(self) -> int:
        """The number of cores that it is shared by."""


@runtime_checkable
class WarmingUp(Protocol):
    """Has work to do that no model decides about."""

    def warm_up(self) -> None:
        """Begin that work in the background, while passes run over a model."""


@runtime_checkable
class ExactExtents(Protocol):
    """Makes programs for one extent of each dimension, none for ranges of extents."""

    @property
    def exact_extents(self) -> bool:
        """Whether it is so."""


@runtime_checkable
class Concurrent(Protocol):
    """Runs neighbouring instructions at the same time if they touch different memory."""

    @property
    def side_by_side(self) -> bool:
        """Whether it is so."""


@runtime_checkable
class Verifying(Protocol):
    """Runs programs so that each instruction is compared with the definition of its ops."""

    def verifying(self, program: Program, options: LoadOptions) -> Executable:
        """An executable that raises `VerifyError` at the first instruction that differs."""


@runtime_checkable
class HostFallback(Protocol):
    """Has the host run what its device cannot."""

    def host_steps(self, program: Program) -> Sequence[tuple[Instr, str]]:
        """The instructions of a planned program that run on the host, and why."""


@dataclass(frozen=True)
class StepSpan:
    """When a thread worked on an instruction, by its place in the program.

    Times are seconds on the clock of `time.perf_counter`. Between `share_end` and `end` the thread
    waits for others.
    """

    place: int
    thread: int
    begin: float
    share_end: float
    end: float


@dataclass(frozen=True)
class StepSeconds:
    """An instruction, by its place in the program: its kernel, and its seconds in the best run."""

    place: int
    kernel: str
    anchor: OpInstr | None
    """The op that its kernel is for, if it has one."""
    seconds: float
    on_host: bool
    others: tuple[int, ...] = ()
    """The places of instructions that run at the same time, as part of the same launch."""


@dataclass(frozen=True)
class ProgramProfile:
    """The fastest of several profiled runs of a program."""

    steps: tuple[StepSeconds, ...]
    """In the program's order."""
    spans: tuple[StepSpan, ...]
    """What each thread did in that run, if the backend tells."""
    run_seconds: float
    """The fastest run that was not profiled; the same threads, in turns with those that were."""


@runtime_checkable
class Profiling(Protocol):
    """Times each instruction."""

    def profile(
        self,
        program: Program,
        inputs: Sequence[Array],
        states: Mapping[str, HostBuffer],
        options: LoadOptions,
        repeat: int,
    ) -> ProgramProfile:
        """Run a planned program some times, and time each instruction."""


@dataclass
class Choice:
    """A kernel that can be computed by several plans, and where in the program it is.

    The first plan is the one that is estimated to be the fastest. `seconds` are of those that were
    measured, by variant.
    """

    key: str
    """Equal for steps that the same kernel computes."""
    kernel: str
    anchor: OpInstr
    plans: Sequence[KernelPlan]
    places: list[int] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def best(self) -> str:
        """The variant that was fastest when measured, unless that may be noise."""
        estimated = self.plans[0].variant
        if not self.seconds:
            return estimated
        variant = min(self.seconds, key=self.seconds.__getitem__)
        gain = self.seconds.get(estimated, math.inf) / self.seconds[variant]
        return variant if gain >= LEAST_GAIN else estimated


@runtime_checkable
class Tuning(Protocol):
    """Measures the plans of kernels, rather than to estimate their cost."""

    @property
    def target(self) -> Target:
        """The machine that code is made for: what was measured holds for it."""

    def choices(self, program: Program) -> list[Choice]:
        """Every kernel of a program that has an anchor, once, with its plans."""

    def measure(
        self,
        plan: PlanProgram,
        choices: Sequence[Choice],
        options: LoadOptions,
        seconds: float,
    ) -> None:
        """Run the plans of all choices in turn for about some seconds, and note their times."""


@dataclass(frozen=True)
class BundleEntry:
    """A planned program of a bundle, and the model's names of what it takes and gives."""

    program: Program
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    suffix: str
    """What follows the name of the bundle in its symbols; nothing if there is only one entry."""
    replan: Callable[[Backend], object]
    """Plans the kernels and the memory of the program anew, by another backend."""


@dataclass(frozen=True)
class BundleExtent:
    """A dimension in which the entries of a bundle differ: its places, and its extent in each."""

    name: str
    places: tuple[tuple[str, int], ...]
    values: tuple[int, ...]


class WritableBundle(Protocol):
    """Programs compiled for a bundle, ready to be written."""

    def write(self, folder: Path, *, shared: bool, force: bool, never: Sequence[Path]) -> Bundle:
        """Write the files of the bundle into a folder, with a shared library if asked for.

        Files of others are replaced only by `force`, and those in `never` not even then.
        """


@runtime_checkable
class Bundling(Protocol):
    """Compiles programs into files that need nothing but each other."""

    def bundle(
        self,
        name: str,
        entries: Sequence[BundleEntry],
        extents: Sequence[BundleExtent],
        request: BundleRequest,
    ) -> WritableBundle:
        """Programs as one bundle, whose symbols begin with the name."""
