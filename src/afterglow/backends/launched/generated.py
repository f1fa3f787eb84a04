"""From a planned program to kernels, and the order in which they run: what all devices share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from afterglow.backends import blocks
from afterglow.backends.interpreter.hosted import HostedProgram
from afterglow.backends.launched.constants import Constants
from afterglow.backends.launched.dependencies import Span
from afterglow.backends.launched.joining import Join, Planned, joined
from afterglow.backends.launched.memories import (
    ALARMS,
    ARENA,
    CONSTANTS,
    COUNTER_BYTES,
    COUNTERS,
    HOST_PREFIX,
)
from afterglow.backends.launched.parameters import Alarm, Counters, Packed, Parameter, Table
from afterglow.backends.launched.repeated import steps_of
from afterglow.graph.origins import joined_origins
from afterglow.instr import (
    Buffer,
    Copy,
    Instr,
    KernelPlan,
    OpInstr,
    Program,
    Region,
    Stack,
    origins_of,
)
from afterglow.instr.program import dims_of_program
from afterglow.runtime.artifact import Section
from afterglow.runtime.native.convention import ALARM_BYTES, alarm_bytes
from afterglow.runtime.native.program import CheckedIndex
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import TensorType
from afterglow.types.dtype import DType, c128, string, u8, u16, u32, u64

NOTHING = KernelPlan("nothing")
"""The plan of a step whose results are empty."""
_SAME_SIZE = {8: u8, 16: u16, 32: u32, 64: u64}
Computation: TypeAlias = OpInstr | Stack | Copy


class Source(Protocol):
    """A finished kernel."""

    @property
    def name(self) -> str:
        """Decided by its text."""

    @property
    def text(self) -> str:
        """What is compiled."""

    @property
    def parameters(self) -> Sequence[Parameter]:
        """What it is given."""


SourceT = TypeVar("SourceT", bound=Source)


@dataclass
class Generated(Generic[SourceT]):
    """A program as kernels, and what runs in which order: launches, and steps of the host."""

    program: Program
    write: Callable[[Computation], SourceT]
    """Writes the kernel of a step."""
    describe: Callable[[SourceT], dict[str, Any]]
    """How a kernel is launched, as JSON can hold it."""
    held: frozenset[DType]
    """The element types that kernels read and write."""
    join: Join[SourceT] | None = None
    """Makes one kernel of several that need nothing of each other, if the device gains by that."""
    constants: Constants = field(default_factory=Constants)
    kernels: dict[str, SourceT] = field(default_factory=dict)
    parts: list[dict[str, Any]] = field(default_factory=list)
    hosted: list[int] = field(default_factory=list)
    host_constants: dict[str, int] = field(default_factory=dict)
    checks: list[CheckedIndex] = field(default_factory=list)
    """What each alarm is about."""
    counters: int = 0
    """How many numbers kernels count with."""

    def fill(self) -> None:
        """Generate everything that the program does."""
        assert not dims_of_program(self.program), "refused when the module was optimised"
        for launch in joined(self._planned(), self.join):
            if launch.kernel is None:
                self._add_host_step(launch.members[0])
            else:
                self.launch(launch.members, launch.kernel)

    def place(self, parameter: Parameter) -> tuple[str, int]:
        """The memory in which a parameter lies, and the bytes before it."""
        match parameter:
            case Packed():
                return CONSTANTS, self.constants.packed(parameter)
            case Table():
                return CONSTANTS, self.constants.table(parameter)
            case Alarm():
                return ALARMS, self._alarm(parameter)
            case Counters(count):
                self.counters += count
                return COUNTERS, (self.counters - count) * COUNTER_BYTES
            case Buffer():
                return self._place_of_buffer(parameter)

    def manifest(self, *, unchecked: bool) -> dict[str, Any]:
        """What a device must know to run it, as JSON can hold it."""
        manifest: dict[str, Any] = {
            "arena_bytes": self.program.arena_bytes or 0,
            "counters": self.counters,
            "parts": self.parts,
            "checks": [check.describe() for check in self.checks],
            "unchecked": unchecked,
        }
        if self.hosted:
            manifest["host"] = self._host(unchecked=unchecked).describe()
        return manifest

    def sections(self, *, unchecked: bool) -> dict[str, Section]:
        """Its constants, and what the host needs for its steps."""
        sections: dict[str, Section] = {}
        if self.hosted:
            hosted = self._host(unchecked=unchecked).sections()
            sections.update({f"{HOST_PREFIX}{name}": data for name, data in hosted.items()})
        sections[CONSTANTS] = self.constants.block().data
        return sections

    def _host(self, *, unchecked: bool) -> HostedProgram:
        return HostedProgram(
            self.program, tuple(self.hosted), self.host_constants, unchecked=unchecked
        )

    def _place_of_buffer(self, buffer: Buffer) -> tuple[str, int]:
        root, start = buffer.root, buffer.start * buffer.type.dtype.itemsize
        match root.region:
            case Region.ARENA:
                assert root.address is not None
                return ARENA, root.address + start
            case Region.CONSTANT:
                return CONSTANTS, self.constants.raw(root) + start
            case Region.INPUT:
                return f"input {self.program.inputs.index(root)}", start
            case Region.OUTPUT:
                return f"output {self.program.outputs.index(root)}", start
        return f"state {root.name}", start

    def _alarm(self, alarm: Alarm) -> int:
        """Where the next alarm lies."""
        step = alarm.step
        origin = step.origin or step.outs[0].name
        self.checks.append(CheckedIndex(origin, step.op.mnemonic, alarm.operand, alarm.allowed))
        return alarm_bytes(len(self.checks)) - ALARM_BYTES

    def planned(self, place: int, step: Instr, kernel: SourceT | None) -> Planned[SourceT]:
        """A step of the program, with the kernel that does it; None if the host runs it."""
        reads, writes = self._spans(step)
        if kernel is None:
            # what is written may have gaps, between which something else lies: it is read, too
            reads += [span for span in writes if span not in reads]
        return Planned(place, step, kernel, reads, writes)

    def _planned(self) -> Iterator[Planned[SourceT]]:
        """All steps that there is something to do for, in the program's order."""
        for place, outer in enumerate(self.program.body):
            for step in steps_of(outer):
                if not isinstance(step, (OpInstr, Stack, Copy)):
                    continue
                if runs_on_host(step):
                    yield self.planned(place, step, None)
                elif not _is_nothing(step):
                    yield self.planned(place, step, self.write(_as_held(step, self.held)))

    def launch(self, steps: Sequence[Planned[SourceT]], kernel: SourceT) -> None:
        """Add a kernel that does some steps of the program, of which none waits for another."""
        self.kernels.setdefault(kernel.name, kernel)
        places = [self.place(parameter) for parameter in kernel.parameters]
        alarms = [Span(name, start, ALARM_BYTES) for name, start in places if name == ALARMS]
        self.parts.append(
            {
                "kernel": kernel.name,
                "places": [*dict.fromkeys(each.place for each in steps)],
                "origins": joined_origins(origins_of(each.step) for each in steps),
                "memory": [[memory, offset] for memory, offset in places],
                "reads": [span for each in steps for span in each.reads],
                "writes": [*(span for each in steps for span in each.writes), *alarms],
                **self.describe(kernel),
            }
        )

    def _add_host_step(self, planned: Planned[SourceT]) -> None:
        """A step of the host, with the bytes that it reads and writes of each memory."""
        for _, buffer in planned.step.accesses():
            root = buffer.root
            if root.region is Region.CONSTANT and root.type.dtype is not string:
                self.host_constants[root.name] = self.constants.raw(root)
        self.hosted.append(planned.place)
        self.parts.append({"host": planned.place, "reads": planned.reads, "writes": planned.writes})

    def _spans(self, step: Instr) -> tuple[list[Span], list[Span]]:
        """The bytes that a step reads and writes, besides constants and what is its own."""
        reads: list[Span] = []
        writes: list[Span] = []
        for access, buffer in step.accesses():
            root = buffer.root
            if root.region in (Region.CONSTANT, Region.LOCAL) or root.type.dtype is string:
                continue
            memory, start = self._place_of_buffer(buffer)
            below, size = span_of(buffer)
            span = Span(memory, start - below, size, *_rows(buffer))
            if access.reads:
                reads.append(span)
            if access.writes:
                writes.append(span)
        return reads, writes


def runs_on_host(step: Instr) -> bool:
    """Whether the host runs an instruction: also a copy of elements that no integer holds."""
    return blocks.runs_on_host(step) or (isinstance(step, Copy) and step.dest.type.dtype is c128)


def _as_held(step: Computation, held: frozenset[DType]) -> Computation:
    """A step; a copy moves bits, so that its elements may be integers of the same size."""
    if not isinstance(step, Copy) or step.dest.type.dtype in held:
        return step
    dtype = _SAME_SIZE[8 * step.dest.type.dtype.itemsize]
    return Copy(_with_elements(step.dest, dtype), _with_elements(step.src, dtype), step.origins)


def _with_elements(buffer: Buffer, dtype: DType) -> Buffer:
    """The memory of a buffer, as elements of another type of the same size."""
    type = TensorType(dtype, buffer.type.shape)
    root = buffer.root
    return Buffer(
        buffer.name, type, root.region, base=root, start=buffer.start, strides=buffer.strides
    )


def _is_nothing(step: Computation) -> bool:
    if isinstance(step, Copy):
        return step.dest.type.size == 0
    return step.plan == NOTHING


def span_of(buffer: Buffer) -> tuple[int, int]:
    """Bytes before the first element of a buffer that belong to it, and from there to its end."""
    size = buffer.type.dtype.itemsize
    if buffer.type.size == 0:
        return 0, 0
    steps = [(n - 1) * s for n, s in zip(buffer.type.shape, buffer.strides, strict=True)]
    below = -sum(step for step in steps if step < 0)
    return below * size, (sum(map(abs, steps)) + 1) * size


def _rows(buffer: Buffer) -> tuple[int, int]:
    """The bytes from row to row of a buffer that is some columns of rows, and those of a row.

    Both are 0 of other buffers: every byte between its first and its last may be its own.
    """
    size = width = buffer.type.dtype.itemsize
    steps = [(n, s * size) for n, s in zip(buffer.type.shape, buffer.strides, strict=True) if n > 1]
    while steps and steps[-1][1] == width:
        width *= steps.pop()[0]
    period = steps[-1][1] if steps else 0
    is_regular = period > width and all(step > 0 and step % period == 0 for _, step in steps)
    return (period, width) if is_regular else (0, 0)
