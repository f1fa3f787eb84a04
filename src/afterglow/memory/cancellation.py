"""Which results are sensitive to cancellation: what follows makes small errors in them large.

Algorithms that save multiplications make errors that are small beside the largest results, also
where a result is nearly zero. That is harmless in most networks, but not before a logarithm: of
silent parts of a sound, which are exactly zero, it would show nothing but errors. Nor is it where
vectors are divided by their lengths: tokens of padding, which are zero, would get any direction.
"""

from __future__ import annotations

from afterglow.instr import Buffer, Instr, OpInstr, Program, ops_of
from afterglow.ops.elementwise import Div
from afterglow.ops.functions import Log, Reciprocal, Sqrt
from afterglow.ops.reduction import Reduction


def cancellation_sensitive(program: Program) -> set[Instr]:
    """The steps of a program that must form sums as they are defined."""
    found: set[Instr] = set()
    wanted: set[Buffer] = set()
    for instruction in reversed(program.body):
        for step in reversed(ops_of(instruction)):
            small = _sensitive_operand(step)
            if small is not None:
                wanted.add(small.root)
            if wanted.isdisjoint(result.root for result in step.outs):
                continue
            if step.op.elementwise or step.op.moves_only or isinstance(step.op, Reduction):
                wanted.update(operand.root for operand in step.ins if operand is not None)
            else:
                found.add(instruction)
    return found


def _sensitive_operand(step: OpInstr) -> Buffer | None:
    """The operand whose small values a step makes large, so that errors in them matter."""
    match step.op:
        case Log() | Sqrt() | Reciprocal():
            return step.ins[0]
        case Div():
            return step.ins[1]
    return None
