"""Which instructions will run as one kernel, and which will work in place: what memory they save.

Stacks and sharing are formed later, on the scheduled program. This says of instructions what those
passes will do if one runs right after the other; for stacks, by the rules that their pass asks.
"""

from __future__ import annotations

from afterglow.instr import Buffer, Instr, OpInstr, Program, Region, Stack
from afterglow.instr.stack_rules import StackGroup, may_join
from afterglow.instr.tiling import reads_pointwise, tile_axes


def touched(*work: Instr) -> list[Buffer]:
    """The whole buffers of the arena that instructions touch, each once."""
    roots = (buffer.root for step in work for _, buffer in step.accesses())
    return list(dict.fromkeys(root for root in roots if root.region is Region.ARENA))


def on_changing_states(program: Program) -> list[Instr]:
    """The instructions that touch states which the program changes, in order."""
    steps = [(step, access, b.root) for step in program.body for access, b in step.accesses()]
    changing = {b for _, access, b in steps if access.writes and b.region is Region.STATE}
    return list(dict.fromkeys(step for step, _, root in steps if root in changing))


def yielded(step: Instr, *, inside: bool = False) -> list[Buffer]:
    """The whole buffers of the arena that the result of an instruction may overwrite.

    If the result stays inside a kernel, whatever is written last there may overwrite all that the
    instruction reads point by point.
    """
    if not isinstance(step, OpInstr):
        return []
    result = step.outs[0].type
    if inside:
        operands = [b for b in step.ins if b is not None and reads_pointwise(step, b)]
    else:
        size = result.dtype.itemsize
        operands = [b for b in step.inplace_operands() if b.type.dtype.itemsize >= size]
    whole = (b for b in operands if b.start == 0 and b.is_dense and b.type.shape == result.shape)
    return list(dict.fromkeys(b.root for b in whole if b.root.region is Region.ARENA))


def overwrites(step: OpInstr, operand: Buffer) -> bool:
    """Whether each result element may be written over what its element of an operand came from."""
    return reads_pointwise(step, operand) or operand in step.inplace_operands()


def passes(first: StackGroup, second: StackGroup, buffer: Buffer) -> bool:
    """Whether a result of one group can go to the next one tile by tile, inside of one kernel."""
    ends = first.members[-1], second.members[-1]
    return may_join(first, second) and bool(tile_axes(Stack(ends, (buffer,))))


def costs_nothing(step: OpInstr, operand: Buffer) -> bool:
    """Whether the result takes over the operand, or lies in memory that is live anyway."""
    result = step.outs[0]
    others = (b.root for b in step.ins if b is not None and b is not operand)
    return result.root in others or (not result.is_view and operand in yielded(step))
