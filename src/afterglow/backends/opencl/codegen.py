"""From a planned program to kernels in OpenCL C, and the order in which they run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any, TypeAlias

from afterglow.backends import blocks
from afterglow.backends.interpreter.hosted import HostedProgram
from afterglow.backends.opencl.clc.types import HELD, unsigned_of
from afterglow.backends.opencl.constants import Constants
from afterglow.backends.opencl.driver import DEVICE
from afterglow.backends.opencl.kernels.kernel import Alarm, KernelSource, Packed, Parameter
from afterglow.backends.opencl.limits import Limits
from afterglow.backends.opencl.planner import NOTHING, write
from afterglow.backends.opencl.repeated import steps_of
from afterglow.instr import (
    Buffer,
    Copy,
    Instr,
    OpInstr,
    Program,
    Region,
    Stack,
    interface_of,
    origins_of,
)
from afterglow.instr.program import dims_of_program
from afterglow.runtime.artifact import Artifact, Section
from afterglow.runtime.native.convention import ALARM_BYTES, alarm_bytes
from afterglow.runtime.native.program import CheckedIndex
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import TensorType
from afterglow.types.dtype import DType, c128, string

ARENA, CONSTANTS, ALARMS = "arena", "constants", "alarms"
SOURCE, BINARY = "source", "binary"
"""Sections: the text of all kernels, and what a driver made of it."""
PRELUDE = "#pragma OPENCL FP_CONTRACT OFF\n"
"""Sums and products are rounded as they are written."""
_Span: TypeAlias = tuple[str, int, int, int, int]
"""Bytes of a memory, as a `Span` of dependencies."""
DOUBLES = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"


@dataclass
class Generated:
    """A program as kernels, and what runs in which order: launches, and steps of the host."""

    program: Program
    limits: Limits
    constants: Constants = field(default_factory=Constants)
    kernels: dict[str, KernelSource] = field(default_factory=dict)
    parts: list[dict[str, Any]] = field(default_factory=list)
    hosted: list[int] = field(default_factory=list)
    host_constants: dict[str, int] = field(default_factory=dict)
    checks: list[CheckedIndex] = field(default_factory=list)
    """What each alarm is about."""

    def _alarm(self, alarm: Alarm) -> int:
        """Where the next alarm lies."""
        step = alarm.step
        origin = step.origin or step.outs[0].name
        self.checks.append(CheckedIndex(origin, step.op.mnemonic, alarm.operand, alarm.allowed))
        return alarm_bytes(len(self.checks)) - ALARM_BYTES

    @property
    def source(self) -> str:
        """The text of all kernels."""
        prelude = PRELUDE + (DOUBLES if self.limits.double else "")
        texts = [kernel.text for kernel in self.kernels.values()]
        return "\n".join([prelude, *_once(texts)])

    def place(self, buffer: Parameter) -> tuple[str, int]:
        """The memory in which a buffer lies, and the bytes before it."""
        if isinstance(buffer, Packed):
            return CONSTANTS, self.constants.packed(buffer)
        if isinstance(buffer, Alarm):
            return ALARMS, self._alarm(buffer)
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


def generate(program: Program, limits: Limits) -> Generated:
    """The kernels of a planned program."""
    assert not dims_of_program(program), "refused when the module was optimised"
    generated = Generated(program, limits)
    for index, outer in enumerate(program.body):
        for step in steps_of(outer):
            _add(generated, index, step)
    return generated


def _add(generated: Generated, index: int, step: Instr) -> None:
    """Add an instruction of the program, or one of those that it consists of."""
    if not isinstance(step, (OpInstr, Stack, Copy)):
        return
    if runs_on_host(step):
        _add_host_step(generated, index, step)
    elif not _is_nothing(step):
        _add_launch(generated, index, step, write(_as_held(step), generated.limits))


def runs_on_host(step: Instr) -> bool:
    """Whether the host runs an instruction: also a copy of elements that no integer holds."""
    return blocks.runs_on_host(step) or (isinstance(step, Copy) and step.dest.type.dtype is c128)


def _as_held(step: OpInstr | Stack | Copy) -> OpInstr | Stack | Copy:
    """A step; a copy moves bits, so that its elements may be integers of the same size."""
    if not isinstance(step, Copy) or step.dest.type.dtype in HELD:
        return step
    dtype = unsigned_of(8 * step.dest.type.dtype.itemsize)
    return Copy(_with_elements(step.dest, dtype), _with_elements(step.src, dtype), step.origins)


def _with_elements(buffer: Buffer, dtype: DType) -> Buffer:
    """The memory of a buffer, as elements of another type of the same size."""
    type = TensorType(dtype, buffer.type.shape)
    root = buffer.root
    return Buffer(
        buffer.name, type, root.region, base=root, start=buffer.start, strides=buffer.strides
    )


def _is_nothing(step: OpInstr | Stack | Copy) -> bool:
    if isinstance(step, Copy):
        return step.dest.type.size == 0
    return step.plan == NOTHING


def _add_launch(generated: Generated, index: int, step: Instr, kernel: KernelSource) -> None:
    generated.kernels.setdefault(kernel.name, kernel)
    places = [generated.place(parameter) for parameter in kernel.parameters]
    reads, writes = _spans(generated, step)
    writes += [(name, start, ALARM_BYTES, 0, 0) for name, start in places if name == ALARMS]
    generated.parts.append(
        {
            "kernel": kernel.name,
            "place": index,
            "origins": origins_of(step),
            "memory": [[memory, offset] for memory, offset in places],
            "items": list(kernel.items),
            "group": list(kernel.group),
            "reads": reads,
            "writes": writes,
        }
    )


def _add_host_step(generated: Generated, index: int, step: Instr) -> None:
    """A step of the host, with the bytes that it reads and writes of each memory."""
    for _, buffer in step.accesses():
        root = buffer.root
        if root.region is Region.CONSTANT and root.type.dtype is not string:
            generated.host_constants[root.name] = generated.constants.raw(root)
    reads, writes = _spans(generated, step)
    generated.hosted.append(index)
    # what is written may have gaps, between which something else lies: it is read, too
    reads += [span for span in writes if span not in reads]
    generated.parts.append({"host": index, "reads": reads, "writes": writes})


def _spans(generated: Generated, step: Instr) -> tuple[list[_Span], list[_Span]]:
    """The bytes that a step reads and writes, besides constants, strings and what is its own."""
    reads: list[_Span] = []
    writes: list[_Span] = []
    for access, buffer in step.accesses():
        root = buffer.root
        if root.region in (Region.CONSTANT, Region.LOCAL) or root.type.dtype is string:
            continue
        memory, start = generated.place(buffer)
        below, size = _span(buffer)
        span = memory, start - below, size, *_rows(buffer)
        if access.reads:
            reads.append(span)
        if access.writes:
            writes.append(span)
    return reads, writes


def _span(buffer: Buffer) -> tuple[int, int]:
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


def to_artifact(generated: Generated, *, unchecked: bool) -> Artifact:
    """The program as data."""
    program = generated.program
    sections: dict[str, Section] = {SOURCE: generated.source.encode()}
    manifest: dict[str, Any] = {
        "device": generated.limits.to_json(),
        "arena_bytes": program.arena_bytes or 0,
        "parts": generated.parts,
        "checks": [check.describe() for check in generated.checks],
        "unchecked": unchecked,
    }
    if generated.hosted:
        hosted = HostedProgram(
            program, tuple(generated.hosted), generated.host_constants, unchecked=unchecked
        )
        manifest["host"] = hosted.describe()
        sections.update({f"host.{name}": data for name, data in hosted.sections().items()})
    sections[CONSTANTS] = generated.constants.block().data
    return Artifact(DEVICE, interface_of(program), program.planned, manifest, sections)


def _once(texts: list[str]) -> Iterator[str]:
    """Kernels with their helpers, each function once in all."""
    seen: set[str] = set()
    for text in texts:
        for part in text.split("\n\n"):
            if part not in seen:
                seen.add(part)
                yield part
