"""The work of one run of a program: operations, and bytes that are read and written."""

from __future__ import annotations

from collections.abc import Iterable

from afterglow.instr import Access, Buffer, Instr, Program, Region, ops_of
from afterglow.ops.flops import program_flops
from afterglow.ops.indexing import LOOKUPS
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Work:
    """Operations and bytes of one run."""

    flops: float
    weight_bytes: int
    """Constants, each counted once; for a lookup table, only the rows that are read."""
    io_bytes: int
    """Inputs and outputs, each counted once."""
    arena_bytes: int
    """Bytes that instructions read from the arena and write to it."""


def program_work(program: Program) -> Work:
    """The work of one run; the body of a loop counts once."""
    return Work(
        flops=program_flops(program),
        weight_bytes=_weight_bytes(program),
        io_bytes=_size((*program.inputs, *program.outputs)),
        arena_bytes=sum(map(_arena_bytes, program.body)),
    )


def _arena_bytes(step: Instr) -> int:
    """Bytes of arena operands that an instruction reads and writes, without its scratch."""
    accesses = [(how, b) for how, b in step.accesses() if b.region is Region.ARENA]
    read = {buffer for how, buffer in accesses if how.reads}
    written = {buffer for how, buffer in accesses if how in (Access.OUT, Access.INOUT)}
    return _size(read) + _size(written)


def _weight_bytes(program: Program) -> int:
    looked_up: dict[Buffer, int] = {}
    read: set[Buffer] = set()
    for step in program.body:
        tables = {op.ins[0]: op.outs[0] for op in ops_of(step) if isinstance(op.op, LOOKUPS)}
        for _, buffer in step.accesses():
            if buffer.region is not Region.CONSTANT:
                continue
            if buffer in tables:
                rows = tables[buffer].type.nbytes
                looked_up[buffer.root] = looked_up.get(buffer.root, 0) + rows
            else:
                read.add(buffer.root)
    parts = (min(rows, b.type.nbytes) for b, rows in looked_up.items() if b not in read)
    return _size(read) + sum(parts)


def _size(buffers: Iterable[Buffer]) -> int:
    return sum(buffer.type.nbytes for buffer in buffers)
