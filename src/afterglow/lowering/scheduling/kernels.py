"""Which instructions will run as one kernel, and which will work in place: what memory they save.

Stacks and sharing are formed later, on the scheduled program. This says of two instructions what
those passes will do if one runs right after the other.
"""

from __future__ import annotations

from collections.abc import Iterator

from afterglow.instr import Buffer, Instr, OpInstr, Region, Stack
from afterglow.instr.tiling import reads_pointwise, tile_axes


def touched(*work: Instr) -> list[Buffer]:
    """The whole buffers of the arena that instructions touch, each once."""
    roots = (buffer.root for step in work for _, buffer in step.accesses())
    return list(dict.fromkeys(root for root in roots if root.region is Region.ARENA))


def yielded(step: Instr) -> Iterator[Buffer]:
    """The whole buffers of the arena that the result of an instruction may overwrite."""
    if not isinstance(step, OpInstr):
        return
    result = step.outs[0].type
    for operand in dict.fromkeys(step.inplace_operands()):
        fits = operand.type.shape == result.shape
        wide = operand.type.dtype.itemsize >= result.dtype.itemsize
        whole = operand.start == 0 and operand.is_dense and operand.root.region is Region.ARENA
        if fits and wide and whole:
            yield operand.root


def is_anchor(step: OpInstr) -> bool:
    """Whether it needs more of its first operand than the elements at one place."""
    first = step.ins[0] if step.ins else None
    return not step.op.elementwise and (first is None or not reads_pointwise(step, first))


def passes(first: OpInstr, second: OpInstr, buffer: Buffer, *, anchored: bool) -> bool:
    """Whether a result of one instruction can go to another one tile by tile.

    An anchor can take it only if it reads each element once, and there is no anchor before it.
    """
    if first.predicate is not second.predicate or not tile_axes(Stack((first, second), (buffer,))):
        return False
    if reads_pointwise(second, buffer):
        return True
    names = zip(second.op.operand_names, second.ins, strict=False)
    places = [name for name, operand in names if operand is buffer]
    return not anchored and len(places) == 1 and places[0] in second.op.reads_once


def costs_nothing(step: OpInstr, operand: Buffer) -> bool:
    """Whether the result takes over the operand, or lies in memory that is live anyway."""
    result = step.outs[0]
    others = (b.root for b in step.ins if b is not None and b is not operand)
    return result.root in others or (not result.is_view and operand in yielded(step))
