"""A program compiled for a machine: everything that is needed to run it, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Protocol

import numpy as np

from afterglow.runtime.artifact import Section
from afterglow.runtime.device import DeviceBuffer, StepName
from afterglow.runtime.native.convention import FIRST_ALARM
from afterglow.runtime.native.image import Image
from afterglow.runtime.native.load import FilePart
from afterglow.runtime.native.machine import Needs
from afterglow.support.errors import IndexRangeError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, IndexRange, Interface
from afterglow.types.extent import Dim, Extents, RangedExtent, bind_extent
from afterglow.types.extent.text import read_shape, spell_shape

WORK_TO_SHARE = 5e5
"""FLOPs of a run below which waking other threads costs more than they save."""


@dataclass(frozen=True)
class Native:
    """A part of a program that runs as machine code: its main function, steps, and FLOPs.

    The FLOPs depend on the extents of the run if the program is for a range. `instructions` are the
    places in the program's body of what it does, `step_places` that of the first of each step.
    """

    main: str
    steps: int
    work: float
    instructions: tuple[int, ...] = ()
    step_places: tuple[int, ...] = ()

    @property
    def is_shared(self) -> bool:
        """Whether several threads are worth it: in a run with the largest extents, if any."""
        return float(self.work) >= WORK_TO_SHARE

    def is_shared_at(self, extents: Extents) -> bool:
        """Whether several threads are worth it in a run with these extents."""
        if not isinstance(self.work, RangedExtent):
            return self.is_shared
        return self.work.bind(extents) >= WORK_TO_SHARE

    def describe(self) -> list[Any]:
        """What is needed to run it, as what JSON can hold."""
        work = str(self.work) if isinstance(self.work, RangedExtent) else self.work
        return [self.main, self.steps, work]

    @staticmethod
    def restore(data: Sequence[Any], dims: Sequence[Dim]) -> Native:
        """What was described so, in a program with these dimensions."""
        main, steps, work = data
        return Native(main, steps, read_shape([work], dims)[0])


@dataclass(frozen=True)
class Host:
    """An instruction that the host runs, by its place in the program's body."""

    index: int


@dataclass(frozen=True)
class CheckedIndex:
    """Numbers of an operand that machine code compares with their range, by node and op."""

    node: str
    op: str
    operand: str
    allowed: IndexRange

    def error(self, value: int, extents: Extents) -> IndexRangeError:
        """What is wrong with a number that is out of range in a run with these extents."""
        low, high = bind_extent(self.allowed.low, extents), bind_extent(self.allowed.high, extents)
        return IndexRangeError.of(self.op, self.operand, value, (low, high), self.node)

    def describe(self) -> list[Any]:
        """It, as what JSON can hold."""
        bounds = spell_shape((self.allowed.low, self.allowed.high))
        return [self.node, self.op, self.operand, *bounds]

    @staticmethod
    def restore(data: Sequence[Any], dims: Sequence[Dim] = ()) -> CheckedIndex:
        """What was described so, in a program with these dimensions."""
        node, op, operand, *bounds = data
        return CheckedIndex(node, op, operand, IndexRange(*read_shape(bounds, dims)))


def raise_alarm(
    checks: Sequence[CheckedIndex], alarms: Array, extents: Extents | None = None
) -> NoReturn:
    """The error about the first alarm that was raised, whoever raised it first."""
    raised, values = alarms.view(np.int64).reshape(-1, 2)[FIRST_ALARM:].T
    first = int(np.flatnonzero(raised)[0])
    raise checks[first].error(int(values[first]), extents or {})


class HostRun(Protocol):
    """One run of what the host does of a program."""

    def execute(self, index: int) -> None:
        """Run the instruction at a place in the program's body."""


class HostProgram(Protocol):
    """What the host does of a program, between stretches of machine code."""

    def start(
        self,
        arena: Array,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        states: Mapping[str, DeviceBuffer],
    ) -> HostRun:
        """Begin a run on the memory that machine code uses."""

    def step(self, index: int) -> StepName:
        """What the instruction at a place in the program's body does."""

    def sections(self) -> dict[str, Section]:
        """What a file needs to hold of it as bytes, by name."""

    def describe(self) -> dict[str, Any]:
        """What is needed besides the sections, as JSON can hold it."""


def parsed_step(name: str) -> StepName:
    """A step of machine code, by the name that it has in a program: kernels, then nodes."""
    kernels, _, nodes = name.partition(" (")
    return StepName(kernels, tuple(nodes.removesuffix(")").split(", ")) if nodes else ())


@dataclass(frozen=True)
class NativeProgram:
    """A compiled program. Its parts run in order: machine code, and instructions for the host."""

    needs: Needs
    interface: Interface
    image: Image
    constants: Array
    parts: tuple[Native | Host, ...]
    arena_bytes: int
    scratch_bytes: int
    pool: Image
    """The code of a pool of threads, for a process that has none yet."""
    host: HostProgram | None = None
    """What the host runs, if it runs something."""
    code_file: FilePart | None = None
    """Where the code lies in a file, if it does."""
    checks: tuple[CheckedIndex, ...] = ()
    """What each alarm is about that machine code may raise, in order."""
    may_run_long: bool = False
    """Whether a loop in the code looks for interrupts."""
    step_text: bytes | memoryview = b""
    """The names of all steps of machine code, a line for each."""

    @property
    def step_names(self) -> list[str]:
        """What each step of machine code computes."""
        return bytes(self.step_text).decode().split("\n")
