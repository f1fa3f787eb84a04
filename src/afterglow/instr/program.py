"""Programs: memory regions, and instructions that work on them by address."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from afterglow.graph import Op, Origins
from afterglow.graph.dims import dims_of_op
from afterglow.instr.buffer import Buffer, Region, row_major
from afterglow.instr.instruction import (
    Alloc,
    Copy,
    DeclareView,
    Instr,
    OpInstr,
    Stack,
    ops_of,
)
from afterglow.support.errors import UsageError
from afterglow.support.names import NameScope
from afterglow.types import Array, Interface, MemoryPlan, Port, TensorType
from afterglow.types.extent import Dim, dims_of, walk_extents
from afterglow.types.later import LaterArray


class Program:
    """A list of instructions and the memory they work on. No values, only addresses."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.inputs: list[Buffer] = []
        self.outputs: list[Buffer] = []
        self.constants: list[Buffer] = []
        self.states: list[Buffer] = []
        self.body: list[Instr] = []
        self.arena_bytes: int | None = None
        """The size of the arena, once planned."""
        self.arenas: dict[str, int] = {}
        """The sizes of several arenas by name, for a target with several memories."""
        self.memory_plan: MemoryPlan | None = None
        """The figures of its memory, once that was planned in this process."""
        self.names = NameScope()

    def declare(
        self,
        region: Region,
        name: str,
        type: TensorType,
        data: Array | LaterArray | None = None,
    ) -> Buffer:
        """Add a whole buffer; one of the arena lives from its `Alloc` to its `Dealloc`."""
        buffer = Buffer(self.names.claim(name), type, region, data=data)
        lists = {
            Region.INPUT: self.inputs,
            Region.OUTPUT: self.outputs,
            Region.CONSTANT: self.constants,
            Region.STATE: self.states,
        }
        if region in lists:
            lists[region].append(buffer)
        return buffer

    def regions(self) -> Iterator[Buffer]:
        """Every buffer outside the arena."""
        yield from self.inputs
        yield from self.outputs
        yield from self.constants
        yield from self.states

    @property
    def planned(self) -> MemoryPlan:
        """The figures of its memory, which must have been planned in this process."""
        if self.memory_plan is None:
            raise UsageError("the passes that plan memory were left out")
        return self.memory_plan

    @property
    def is_planned(self) -> bool:
        """Whether the sizes of its arenas are known."""
        return self.arena_bytes is not None or bool(self.arenas)

    def arena_size(self, memory: str) -> int | None:
        """The size of an arena, once planned."""
        return self.arenas.get(memory) if memory else self.arena_bytes

    def arena(self) -> list[Buffer]:
        """The whole buffers of the arena, in order of their allocation."""
        return [step.buffer for step in self.body if isinstance(step, Alloc)]


def dims_of_program(program: Program) -> set[Dim]:
    """The dimensions that buffers, ops and plans of a program depend on."""
    found: set[Dim] = set()
    buffers = [*program.regions()]
    for step in program.body:
        if isinstance(step, (Alloc, DeclareView)):
            buffers.append(step.buffer)
        if isinstance(step, Stack):
            buffers.extend(step.locals)
        for member in (step, *ops_of(step)):
            plan = getattr(member, "plan", None)
            found.update(dims_of(*walk_extents(plan.settings if plan else {})))
        for computed in ops_of(step):
            found.update(dims_of_op(computed.op))
    for buffer in buffers:
        found.update(dims_of(*buffer.type.shape, buffer.start, *buffer.strides))
        if buffer.level is not None:
            found.update(dims_of(buffer.level.before, buffer.level.after))
    return found


def interface_of(program: Program) -> Interface:
    """The ports of a program."""
    groups = (program.inputs, program.outputs, program.states)
    inputs, outputs, states = (tuple(map(_port, buffers)) for buffers in groups)
    return Interface(inputs, outputs, states)


def _port(buffer: Buffer) -> Port:
    """What a buffer outside the arena is to a caller."""
    type = buffer.type.quantized(buffer.quantization) if buffer.quantization else buffer.type
    return Port(buffer.name, type, buffer.donated, buffer.level)


class ProgramBuilder:
    """Appends instructions to a program; what `Op.select` is given."""

    def __init__(self, program: Program, origins: Origins = ()) -> None:
        self.program = program
        self.origins = origins
        self.predicate: Buffer | None = None

    def alloc(self, name: str, type: TensorType) -> Buffer:
        """Take a buffer of the arena into use."""
        buffer = self.program.declare(Region.ARENA, name, type)
        self.program.body.append(Alloc(buffer))
        return buffer

    def emit(self, op: Op, outs: Sequence[Buffer], ins: Sequence[Buffer | None]) -> None:
        """Compute an op."""
        self.program.body.append(
            OpInstr(op, tuple(outs), tuple(ins), (), self.predicate, self.origins)
        )

    def copy(self, dest: Buffer, src: Buffer) -> None:
        """Move elements between buffers of one type."""
        self.program.body.append(Copy(dest, src, self.origins))

    def window(
        self,
        buffer: Buffer,
        starts: Sequence[int],
        extents: Sequence[int],
        steps: Sequence[int] | None = None,
    ) -> Buffer:
        """A view of the elements start, start + step, … along each axis."""
        steps = steps or (1,) * len(extents)
        start = buffer.start
        if 0 not in extents:  # an empty window touches nothing, wherever it begins
            start += sum(s * i for s, i in zip(buffer.strides, starts, strict=True))
        strides = [stride * step for stride, step in zip(buffer.strides, steps, strict=True)]
        return self._view(buffer, buffer.type.with_shape(extents), start, strides)

    def reshaped(self, buffer: Buffer, type: TensorType) -> Buffer:
        """A view of all elements of a dense buffer in another shape."""
        return self._view(buffer, type, buffer.start, row_major(type.shape))

    def _view(self, buffer: Buffer, type: TensorType, start: int, strides: Sequence[int]) -> Buffer:
        root = buffer.root
        name = self.program.names.claim(f"{root.name}.view")
        view = Buffer(name, type, root.region, base=root, start=start, strides=strides)
        self.program.body.append(DeclareView(view))
        return view
