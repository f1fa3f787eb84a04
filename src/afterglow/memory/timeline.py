"""The arena over time: which buffer is there from which instruction to which, and who made it.

Time counts the instructions that do something; allocs, deallocs and declarations take none.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from afterglow.instr import (
    Alloc,
    Buffer,
    Copy,
    Dealloc,
    DeclareView,
    Instr,
    OpInstr,
    Program,
    Stack,
    origins_of,
)
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Allocation:
    """A buffer in the arena, from instruction `start` to instruction `last`, both included."""

    buffer: Buffer
    start: int
    last: int
    maker: Instr | None
    """The first instruction that writes it."""

    @property
    def nbytes(self) -> int:
        """How much it takes."""
        return self.buffer.type.nbytes

    @property
    def address(self) -> int:
        """Where it lies."""
        assert self.buffer.address is not None, "the program is not planned"
        return self.buffer.address


class Timeline:
    """Every allocation of a planned program, in order of allocation."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.steps: list[Instr] = []
        self.allocations: list[Allocation] = []
        starts: dict[Buffer, int] = {}
        makers: dict[Buffer, Instr] = {}
        for step in program.body:
            match step:
                case Alloc(buffer):
                    starts[buffer] = len(self.steps)
                case Dealloc(buffer) if not buffer.is_view:
                    self._leave(buffer, starts.pop(buffer), makers)
                case Dealloc() | DeclareView():
                    pass
                case _:
                    self.steps.append(step)
                    for access, written in step.accesses():
                        if access.writes:
                            makers.setdefault(written.root, step)
        for buffer, start in starts.items():  # what nobody freed stays to the end
            self._leave(buffer, start, makers)
        order = {buffer: index for index, buffer in enumerate(program.arena())}
        self.allocations.sort(key=lambda allocation: order[allocation.buffer])

    def _leave(self, buffer: Buffer, start: int, makers: dict[Buffer, Instr]) -> None:
        last = max(len(self.steps) - 1, start)
        self.allocations.append(Allocation(buffer, start, last, makers.get(buffer)))

    @cached_property
    def live_bytes(self) -> list[int]:
        """At each instruction, the bytes of all buffers that are there."""
        changes = [0] * (len(self.steps) + 2)
        for allocation in self.allocations:
            changes[allocation.start] += allocation.nbytes
            changes[allocation.last + 1] -= allocation.nbytes
        live, total = [], 0
        for change in changes[:-2]:
            total += change
            live.append(total)
        return live

    @property
    def peak(self) -> int:
        """The first instruction at which most bytes are there."""
        return max(range(len(self.steps)), key=self.live_bytes.__getitem__, default=0)

    def live_at(self, time: int) -> list[Allocation]:
        """What is there at an instruction, the largest first."""
        there = [each for each in self.allocations if each.start <= time <= each.last]
        return sorted(there, key=lambda each: -each.nbytes)


def work_of(step: Instr | None) -> str:
    """What an instruction computes: the names of its ops, in order."""
    return ", ".join(op.op.mnemonic for op in _ops(step)) or _bare_name(step)


def kind_of(step: Instr | None) -> str:
    """The op that says most about an instruction: a stack's first that is not element-wise."""
    ops = list(_ops(step))
    anchors = [op for op in ops if not op.op.elementwise]
    return (anchors or ops)[0].op.mnemonic if ops else _bare_name(step)


def origin_of(step: Instr | None) -> str:
    """The model's own nodes that an instruction comes from."""
    return ", ".join(origins_of(step))


def _ops(step: Instr | None) -> Iterator[OpInstr]:
    match step:
        case OpInstr():
            yield step
        case Stack(body):
            yield from body


def _bare_name(step: Instr | None) -> str:
    if step is None:
        return "nothing"
    return "copy" if isinstance(step, Copy) else type(step).__name__.lower()
