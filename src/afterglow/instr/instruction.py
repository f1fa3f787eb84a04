"""Instructions: what a program does to its buffers, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from afterglow.graph import Op, Origins, joined_origins
from afterglow.instr.buffer import Access, Buffer
from afterglow.instr.kernel_plan import KernelPlan
from afterglow.support.errors import InternalError
from afterglow.support.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from afterglow.instr.program import Program


class Instr:
    """Base of all instructions."""

    def accesses(self) -> Iterator[tuple[Access, Buffer]]:
        """Every operand, and what happens to it."""
        return iter(())

    def substitute(self, change: Callable[[Buffer], Buffer]) -> None:
        """Replace every operand by what `change` gives for it."""


@dataclass(eq=False)
class Alloc(Instr):
    """From here on a buffer of the arena is in use; its content is anything."""

    buffer: Buffer


@dataclass(eq=False)
class Dealloc(Instr):
    """From here on a buffer of the arena is free; a view of an input or output holds nothing."""

    buffer: Buffer


@dataclass(eq=False)
class DeclareView(Instr):
    """Names a view; nothing happens."""

    buffer: Buffer


@dataclass(eq=False)
class Copy(Instr):
    """Moves elements; both sides have one type, and may lie in memory in different ways."""

    dest: Buffer
    src: Buffer
    origins: Origins = ()

    def accesses(self) -> Iterator[tuple[Access, Buffer]]:
        """One written, one read."""
        yield Access.OUT, self.dest
        yield Access.IN, self.src

    def substitute(self, change: Callable[[Buffer], Buffer]) -> None:
        """See the base."""
        self.dest, self.src = change(self.dest), change(self.src)


@dataclass(eq=False)
class Prefetch(Instr):
    """Begins to move elements, as `Copy` does; until its `Wait`, nobody knows what `dest` holds."""

    dest: Buffer
    src: Buffer
    origins: Origins = ()

    def accesses(self) -> Iterator[tuple[Access, Buffer]]:
        """The destination holds nothing yet: it is as good as scratch."""
        yield Access.SCRATCH, self.dest
        yield Access.IN, self.src

    def substitute(self, change: Callable[[Buffer], Buffer]) -> None:
        """See the base."""
        self.dest, self.src = change(self.dest), change(self.src)


@dataclass(eq=False)
class Wait(Instr):
    """Ends a transfer: what was prefetched is there."""

    transfer: Prefetch

    def accesses(self) -> Iterator[tuple[Access, Buffer]]:
        """Whatever was moved, was moved by now."""
        yield Access.OUT, self.transfer.dest
        yield Access.IN, self.transfer.src


@dataclass(eq=False)
class OpInstr(Instr):
    """Computes an op: the instruction that carries it.

    An output that is also an input is `inout`: the op works in place. Where the predicate is
    false, nobody needs the outputs, and they may be left unwritten.
    """

    op: Op
    outs: tuple[Buffer, ...]
    ins: tuple[Buffer | None, ...]
    scratch: tuple[Buffer, ...] = ()
    predicate: Buffer | None = None
    origins: Origins = field(default=(), compare=False)
    bodies: tuple[Program, ...] = field(default=(), compare=False)
    """The functions that the op carries, as programs, once those are planned."""
    plan: KernelPlan | None = field(default=None, compare=False)
    """How a backend computes it; of a member of a stack, the stack has the plan."""

    @property
    def origin(self) -> str:
        """The first of its origins, which stands for it in messages; empty if it has none."""
        return self.origins[0] if self.origins else ""

    @property
    def required(self) -> tuple[Buffer, ...]:
        """The inputs that the op requires, in order."""
        return self.op.required_of(self.ins)

    def operand(self, index: int) -> Buffer:
        """The input at an index, which is given."""
        found = self.optional(index)
        if found is None:
            name = self.op.operand_names[index]
            raise InternalError(f"{self.op.mnemonic} lacks its operand {name}")
        return found

    def optional(self, index: int) -> Buffer | None:
        """The input at an index, None if it is not given."""
        return self.ins[index] if index < len(self.ins) else None

    def accesses(self) -> Iterator[tuple[Access, Buffer]]:
        """Outputs, inputs, scratch, predicate."""
        for buffer in self.outs:
            yield (Access.INOUT if buffer in self.ins else Access.OUT), buffer
        for operand in self.ins:
            if operand is not None:
                yield Access.IN, operand
        for buffer in self.scratch:
            yield Access.SCRATCH, buffer
        if self.predicate is not None:
            yield Access.IN, self.predicate

    def substitute(self, change: Callable[[Buffer], Buffer]) -> None:
        """See the base."""
        self.outs = tuple(map(change, self.outs))
        self.ins = tuple(None if b is None else change(b) for b in self.ins)
        self.scratch = tuple(map(change, self.scratch))
        self.predicate = None if self.predicate is None else change(self.predicate)

    def inplace_operands(self) -> Iterator[Buffer]:
        """The inputs whose memory the op allows its result to take over."""
        names: Sequence[str] = self.op.operand_names
        for name, operand in zip(names, self.ins, strict=False):
            if operand is not None and name in self.op.inplace:
                yield operand


@dataclass(eq=False)
class Stack(Instr):
    """Instructions that run as one kernel, tile by tile.

    Its locals are buffers that only its own instructions use: they need no memory, because one
    tile of them is enough at a time.
    """

    body: tuple[OpInstr, ...]
    locals: tuple[Buffer, ...]
    scratch: tuple[Buffer, ...] = ()
    plan: KernelPlan | None = field(default=None, compare=False)

    def accesses(self) -> Iterator[tuple[Access, Buffer]]:
        """What the instructions do to memory outside, and scratch; locals do not show."""
        hidden = {*self.locals}
        for step in self.body:
            yield from ((access, b) for access, b in step.accesses() if b.root not in hidden)
        yield from ((Access.SCRATCH, buffer) for buffer in self.scratch)

    def substitute(self, change: Callable[[Buffer], Buffer]) -> None:
        """See the base."""
        for step in self.body:
            step.substitute(change)
        self.scratch = tuple(map(change, self.scratch))


def ops_of(step: Instr | None) -> tuple[OpInstr, ...]:
    """The instruction itself if it computes an op, the members of a stack, nothing for others."""
    match step:
        case OpInstr():
            return (step,)
        case Stack(body):
            return body
    return ()


def origins_of(step: Instr | None) -> Origins:
    """The model's own nodes that an instruction computes; of a stack, those of all its members."""
    match step:
        case Copy(_, _, origins) | Prefetch(_, _, origins) | Wait(Prefetch(_, _, origins)):
            return origins
    return joined_origins(op.origins for op in ops_of(step))
